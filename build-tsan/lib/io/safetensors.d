build-tsan/lib/io/safetensors.o: lib/io/safetensors.c \
 lib/io/safetensors.h lib/array/kv_array.h lib/base/kv_err.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/file.h lib/base/mem.h \
 lib/base/utf8.h lib/io/json.h
lib/io/safetensors.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/file.h:
lib/base/mem.h:
lib/base/utf8.h:
lib/io/json.h:
