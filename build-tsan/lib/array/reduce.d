build-tsan/lib/array/reduce.o: lib/array/reduce.c lib/array/reduce.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/array/arrange.h \
 lib/array/device.h lib/engine/engine.h lib/engine/pool.h lib/base/mem.h \
 lib/base/kv_err.h
lib/array/reduce.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/array/arrange.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/mem.h:
lib/base/kv_err.h:
