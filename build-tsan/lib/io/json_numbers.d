build-tsan/lib/io/json_numbers.o: lib/io/json_numbers.c \
 lib/io/json_numbers.h lib/array/kv_array.h lib/base/kv_err.h \
 lib/base/mem.h lib/base/kv_err.h lib/base/num.h
lib/io/json_numbers.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/base/num.h:
