build-tsan/tests/unit/test_state_file.o: tests/unit/test_state_file.c \
 src/kvstore.h lib/array/kv_array.h lib/base/kv_err.h lib/base/file.h \
 lib/base/kv_err.h lib/base/mem.h lib/io/safetensors.h \
 lib/array/kv_array.h tests/unit/test.h
src/kvstore.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/file.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/io/safetensors.h:
lib/array/kv_array.h:
tests/unit/test.h:
