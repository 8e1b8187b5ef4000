build-tsan/lib/array/device.o: lib/array/device.c lib/array/device.h \
 lib/engine/engine.h lib/engine/pool.h lib/base/kv_err.h \
 lib/array/kv_array.h
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
