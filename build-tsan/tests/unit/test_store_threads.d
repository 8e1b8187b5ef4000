build-tsan/tests/unit/test_store_threads.o: \
 tests/unit/test_store_threads.c src/kvstore.h lib/array/kv_array.h \
 lib/base/kv_err.h tests/unit/test.h
src/kvstore.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
tests/unit/test.h:
