build-tsan/tests/unit/test_reduce.o: tests/unit/test_reduce.c \
 lib/array/reduce.h lib/array/kv_array.h lib/base/kv_err.h \
 lib/array/dot.h tests/unit/test.h
lib/array/reduce.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/array/dot.h:
tests/unit/test.h:
