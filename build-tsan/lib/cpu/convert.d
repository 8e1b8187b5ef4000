build-tsan/lib/cpu/convert.o: lib/cpu/convert.c lib/cpu/convert.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/cpu/clones.h lib/cpu/half.h
lib/cpu/convert.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/cpu/clones.h:
lib/cpu/half.h:
