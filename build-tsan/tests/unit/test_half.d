build-tsan/tests/unit/test_half.o: tests/unit/test_half.c lib/cpu/half.h \
 tests/unit/test.h lib/base/kv_err.h
lib/cpu/half.h:
tests/unit/test.h:
lib/base/kv_err.h:
