build-tsan/lib/cpu/sum.o: lib/cpu/sum.c lib/cpu/sum.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/cpu/clones.h \
 lib/cpu/convert.h lib/cpu/half.h
lib/cpu/sum.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/cpu/clones.h:
lib/cpu/convert.h:
lib/cpu/half.h:
