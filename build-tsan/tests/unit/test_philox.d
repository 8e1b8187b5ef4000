build-tsan/tests/unit/test_philox.o: tests/unit/test_philox.c \
 lib/base/philox.h tests/unit/test.h lib/base/kv_err.h
lib/base/philox.h:
tests/unit/test.h:
lib/base/kv_err.h:
