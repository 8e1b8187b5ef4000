build-tsan/src/core/image.o: src/core/image.c src/core/image.h \
 lib/base/mem.h lib/base/kv_err.h lib/io/safetensors.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/base/file.h
src/core/image.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/io/safetensors.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/file.h:
