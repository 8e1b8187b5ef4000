build-tsan/lib/cpu/cpu_table.o: lib/cpu/cpu_table.c lib/array/device.h \
 lib/engine/engine.h lib/engine/pool.h lib/base/kv_err.h \
 lib/array/kv_array.h lib/base/mem.h lib/base/kv_err.h lib/cpu/convert.h \
 lib/array/kv_array.h lib/cpu/rows.h lib/cpu/sum.h
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/cpu/convert.h:
lib/array/kv_array.h:
lib/cpu/rows.h:
lib/cpu/sum.h:
