build-tsan/lib/io/npy.o: lib/io/npy.c lib/io/npy.h lib/array/kv_array.h \
 lib/base/kv_err.h lib/array/arrange.h lib/array/kv_array.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/file.h lib/base/mem.h \
 lib/base/num.h
lib/io/npy.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/array/arrange.h:
lib/array/kv_array.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/file.h:
lib/base/mem.h:
lib/base/num.h:
