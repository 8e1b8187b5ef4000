build-tsan/tests/unit/test_element.o: tests/unit/test_element.c \
 tests/unit/test.h lib/base/kv_err.h lib/io/element.h \
 lib/array/kv_array.h lib/base/num.h
tests/unit/test.h:
lib/base/kv_err.h:
lib/io/element.h:
lib/array/kv_array.h:
lib/base/num.h:
