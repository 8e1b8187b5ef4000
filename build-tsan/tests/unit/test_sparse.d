build-tsan/tests/unit/test_sparse.o: tests/unit/test_sparse.c \
 lib/array/sparse.h lib/array/device.h lib/engine/engine.h \
 lib/engine/pool.h lib/base/kv_err.h lib/array/kv_array.h \
 lib/array/arrange.h lib/array/reduce.h lib/array/slice.h lib/base/buf.h \
 lib/base/kv_err.h lib/base/mem.h lib/io/csv.h lib/array/kv_array.h \
 lib/io/json.h lib/io/npy.h lib/io/print.h lib/io/safetensors.h \
 tests/unit/test.h
lib/array/sparse.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/array/arrange.h:
lib/array/reduce.h:
lib/array/slice.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/io/csv.h:
lib/array/kv_array.h:
lib/io/json.h:
lib/io/npy.h:
lib/io/print.h:
lib/io/safetensors.h:
tests/unit/test.h:
