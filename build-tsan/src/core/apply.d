build-tsan/src/core/apply.o: src/core/apply.c src/core/apply.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/vm/plan.h lib/vm/program.h \
 lib/array/kv_array.h lib/base/buf.h lib/base/kv_err.h lib/array/sparse.h \
 lib/array/device.h lib/engine/engine.h lib/engine/pool.h \
 lib/array/kv_array.h lib/base/mem.h
src/core/apply.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/vm/plan.h:
lib/vm/program.h:
lib/array/kv_array.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/array/sparse.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/array/kv_array.h:
lib/base/mem.h:
