build-tsan/lib/array/sparse.o: lib/array/sparse.c lib/array/sparse.h \
 lib/array/device.h lib/engine/engine.h lib/engine/pool.h \
 lib/base/kv_err.h lib/array/kv_array.h lib/base/mem.h lib/base/kv_err.h
lib/array/sparse.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/base/mem.h:
lib/base/kv_err.h:
