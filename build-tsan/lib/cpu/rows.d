build-tsan/lib/cpu/rows.o: lib/cpu/rows.c lib/cpu/rows.h \
 lib/array/device.h lib/engine/engine.h lib/engine/pool.h \
 lib/base/kv_err.h lib/array/kv_array.h lib/cpu/sum.h \
 lib/array/kv_array.h
lib/cpu/rows.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/cpu/sum.h:
lib/array/kv_array.h:
