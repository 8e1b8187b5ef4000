build-tsan/lib/array/promote.o: lib/array/promote.c lib/array/promote.h \
 lib/array/kv_array.h lib/base/kv_err.h
lib/array/promote.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
