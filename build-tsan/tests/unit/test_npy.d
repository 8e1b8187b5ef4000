build-tsan/tests/unit/test_npy.o: tests/unit/test_npy.c lib/io/npy.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/base/mem.h lib/base/kv_err.h \
 tests/unit/test_io.h lib/io/element.h lib/base/num.h tests/unit/test.h
lib/io/npy.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/base/kv_err.h:
tests/unit/test_io.h:
lib/io/element.h:
lib/base/num.h:
tests/unit/test.h:
