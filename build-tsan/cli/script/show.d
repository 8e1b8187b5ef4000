build-tsan/cli/script/show.o: cli/script/show.c cli/script/show.h \
 cli/script/command.h lib/base/mem.h lib/base/kv_err.h lib/lang/ast.h \
 cli/script/rows.h cli/script/value.h lib/base/buf.h lib/array/kv_array.h \
 lib/base/kv_err.h lib/vm/host.h cli/script/session.h lib/base/map.h \
 lib/io/print.h lib/array/kv_array.h src/kvstore.h lib/lang/source.h \
 lib/base/num.h lib/base/suggest.h lib/io/csv.h lib/io/json.h
cli/script/show.h:
cli/script/command.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/lang/ast.h:
cli/script/rows.h:
cli/script/value.h:
lib/base/buf.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/vm/host.h:
cli/script/session.h:
lib/base/map.h:
lib/io/print.h:
lib/array/kv_array.h:
src/kvstore.h:
lib/lang/source.h:
lib/base/num.h:
lib/base/suggest.h:
lib/io/csv.h:
lib/io/json.h:
