build-tsan/tests/unit/test_print.o: tests/unit/test_print.c \
 tests/unit/test.h lib/base/kv_err.h lib/base/mem.h lib/base/kv_err.h \
 lib/io/print.h lib/array/kv_array.h lib/base/buf.h tests/unit/test_io.h \
 lib/io/element.h lib/base/num.h tests/unit/print_cases.h
tests/unit/test.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/io/print.h:
lib/array/kv_array.h:
lib/base/buf.h:
tests/unit/test_io.h:
lib/io/element.h:
lib/base/num.h:
tests/unit/print_cases.h:
