build-tsan/cli/script/func_reduce.o: cli/script/func_reduce.c \
 cli/script/func.h cli/script/function.h cli/script/session.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/map.h lib/io/print.h \
 lib/array/kv_array.h lib/base/kv_err.h src/kvstore.h \
 lib/array/kv_array.h lib/lang/source.h cli/script/value.h lib/vm/host.h \
 lib/base/mem.h lib/lang/ast.h lib/array/arrange.h lib/array/kv_array.h \
 lib/array/device.h lib/engine/engine.h lib/engine/pool.h lib/array/dot.h \
 lib/array/promote.h lib/array/reduce.h
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
lib/array/arrange.h:
lib/array/kv_array.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/array/dot.h:
lib/array/promote.h:
lib/array/reduce.h:
