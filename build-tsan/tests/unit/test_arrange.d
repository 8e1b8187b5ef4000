build-tsan/tests/unit/test_arrange.o: tests/unit/test_arrange.c \
 lib/array/arrange.h lib/array/kv_array.h lib/base/kv_err.h \
 lib/array/promote.h tests/unit/test.h
lib/array/arrange.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/array/promote.h:
tests/unit/test.h:
