build-tsan/cli/state.o: cli/state.c cli/state.h cli/script/session.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/map.h lib/io/print.h \
 lib/array/kv_array.h lib/base/kv_err.h src/kvstore.h \
 lib/array/kv_array.h lib/lang/source.h cli/script/value.h lib/vm/host.h \
 lib/base/mem.h lib/lang/ast.h lib/base/file.h cli/script/show.h \
 cli/script/command.h cli/script/rows.h cli/script/session.h
cli/state.h:
cli/script/session.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/map.h:
lib/io/print.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
src/kvstore.h:
lib/array/kv_array.h:
lib/lang/source.h:
cli/script/value.h:
lib/vm/host.h:
lib/base/mem.h:
lib/lang/ast.h:
lib/base/file.h:
cli/script/show.h:
cli/script/command.h:
cli/script/rows.h:
cli/script/session.h:
