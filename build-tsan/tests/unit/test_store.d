build-tsan/tests/unit/test_store.o: tests/unit/test_store.c src/kvstore.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/base/mem.h lib/base/kv_err.h \
 tests/unit/test.h
src/kvstore.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/base/kv_err.h:
tests/unit/test.h:
