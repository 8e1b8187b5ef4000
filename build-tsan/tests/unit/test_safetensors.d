build-tsan/tests/unit/test_safetensors.o: tests/unit/test_safetensors.c \
 lib/io/safetensors.h lib/array/kv_array.h lib/base/kv_err.h \
 lib/base/file.h lib/base/kv_err.h lib/base/mem.h tests/unit/test_io.h \
 lib/io/element.h lib/base/num.h tests/unit/test.h
lib/io/safetensors.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/file.h:
lib/base/kv_err.h:
lib/base/mem.h:
tests/unit/test_io.h:
lib/io/element.h:
lib/base/num.h:
tests/unit/test.h:
