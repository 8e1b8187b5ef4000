build-tsan/lib/array/arrange.o: lib/array/arrange.c lib/array/arrange.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/array/strided.h
lib/array/arrange.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/array/strided.h:
