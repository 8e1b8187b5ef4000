build-tsan/lib/array/slice.o: lib/array/slice.c lib/array/slice.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/array/strided.h
lib/array/slice.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/array/strided.h:
