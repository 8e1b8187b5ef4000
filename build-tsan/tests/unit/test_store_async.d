build-tsan/tests/unit/test_store_async.o: tests/unit/test_store_async.c \
 src/kvstore.h lib/array/kv_array.h lib/base/kv_err.h tests/unit/test.h
src/kvstore.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
tests/unit/test.h:
