build-tsan/tests/unit/test_store_file.o: tests/unit/test_store_file.c \
 lib/base/file.h lib/base/kv_err.h lib/base/mem.h lib/io/safetensors.h \
 lib/array/kv_array.h lib/base/kv_err.h src/kvstore.h \
 lib/array/kv_array.h tests/unit/test.h tests/unit/test_io.h \
 lib/io/element.h lib/base/num.h
lib/base/file.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/io/safetensors.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
src/kvstore.h:
lib/array/kv_array.h:
tests/unit/test.h:
tests/unit/test_io.h:
lib/io/element.h:
lib/base/num.h:
