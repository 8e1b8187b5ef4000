build-tsan/tests/unit/test_store_sparse.o: tests/unit/test_store_sparse.c \
 lib/array/device.h lib/engine/engine.h lib/engine/pool.h \
 lib/base/kv_err.h lib/array/kv_array.h lib/base/mem.h lib/base/kv_err.h \
 src/kvstore.h lib/array/kv_array.h tests/unit/test.h
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/base/mem.h:
lib/base/kv_err.h:
src/kvstore.h:
lib/array/kv_array.h:
tests/unit/test.h:
