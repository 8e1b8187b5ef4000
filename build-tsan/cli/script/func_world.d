build-tsan/cli/script/func_world.o: cli/script/func_world.c \
 cli/script/func.h cli/script/function.h cli/script/session.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/map.h lib/io/print.h \
 lib/array/kv_array.h lib/base/kv_err.h src/kvstore.h \
 lib/array/kv_array.h lib/lang/source.h cli/script/value.h lib/vm/host.h \
 lib/base/mem.h lib/lang/ast.h lib/base/num.h cli/script/show.h \
 cli/script/command.h cli/script/rows.h
cli/script/func.h:
cli/script/function.h:
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
lib/base/num.h:
cli/script/show.h:
cli/script/command.h:
cli/script/rows.h:
