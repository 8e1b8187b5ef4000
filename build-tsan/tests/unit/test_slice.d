build-tsan/tests/unit/test_slice.o: tests/unit/test_slice.c \
 lib/array/slice.h lib/array/kv_array.h lib/base/kv_err.h \
 lib/array/strided.h lib/base/mem.h lib/base/kv_err.h tests/unit/test.h
lib/array/slice.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/array/strided.h:
lib/base/mem.h:
lib/base/kv_err.h:
tests/unit/test.h:
