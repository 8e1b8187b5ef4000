build-tsan/cli/script/rows.o: cli/script/rows.c cli/script/rows.h \
 cli/script/value.h lib/base/buf.h lib/base/kv_err.h lib/array/kv_array.h \
 lib/base/kv_err.h lib/vm/host.h lib/base/mem.h lib/lang/ast.h \
 lib/base/utf8.h cli/script/show.h cli/script/command.h \
 cli/script/session.h lib/base/map.h lib/io/print.h lib/array/kv_array.h \
 src/kvstore.h lib/lang/source.h
cli/script/rows.h:
cli/script/value.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/vm/host.h:
lib/base/mem.h:
lib/lang/ast.h:
lib/base/utf8.h:
cli/script/show.h:
cli/script/command.h:
cli/script/session.h:
lib/base/map.h:
lib/io/print.h:
lib/array/kv_array.h:
src/kvstore.h:
lib/lang/source.h:
