build-tsan/tests/unit/test_sum.o: tests/unit/test_sum.c lib/cpu/sum.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/cpu/convert.h \
 tests/unit/test.h
lib/cpu/sum.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/cpu/convert.h:
tests/unit/test.h:
