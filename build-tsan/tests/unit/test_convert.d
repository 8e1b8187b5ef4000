build-tsan/tests/unit/test_convert.o: tests/unit/test_convert.c \
 lib/cpu/convert.h lib/array/kv_array.h lib/base/kv_err.h \
 tests/unit/test.h
lib/cpu/convert.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
tests/unit/test.h:
