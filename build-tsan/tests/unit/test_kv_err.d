build-tsan/tests/unit/test_kv_err.o: tests/unit/test_kv_err.c \
 tests/unit/test.h lib/base/kv_err.h
tests/unit/test.h:
lib/base/kv_err.h:
