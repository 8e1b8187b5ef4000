build-tsan/lib/array/strided.o: lib/array/strided.c lib/array/strided.h \
 lib/array/kv_array.h lib/base/kv_err.h
lib/array/strided.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
