build-tsan/lib/array/array.o: lib/array/array.c lib/array/device.h \
 lib/engine/engine.h lib/engine/pool.h lib/base/kv_err.h \
 lib/array/kv_array.h lib/array/sparse.h lib/base/mem.h lib/base/kv_err.h
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/array/sparse.h:
lib/base/mem.h:
lib/base/kv_err.h:
