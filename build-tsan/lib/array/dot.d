build-tsan/lib/array/dot.o: lib/array/dot.c lib/array/dot.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/array/reduce.h lib/base/mem.h \
 lib/base/kv_err.h
lib/array/dot.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/array/reduce.h:
lib/base/mem.h:
lib/base/kv_err.h:
