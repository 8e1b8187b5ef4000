build-tsan/cli/script/value.o: cli/script/value.c cli/script/value.h \
 lib/base/buf.h lib/base/kv_err.h lib/array/kv_array.h lib/base/kv_err.h \
 lib/vm/host.h lib/base/mem.h lib/lang/ast.h lib/array/device.h \
 lib/engine/engine.h lib/engine/pool.h lib/array/kv_array.h \
 lib/base/num.h
cli/script/value.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/vm/host.h:
lib/base/mem.h:
lib/lang/ast.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/array/kv_array.h:
lib/base/num.h:
