build-tsan/lib/io/element.o: lib/io/element.c lib/io/element.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/base/num.h lib/base/utf8.h
lib/io/element.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/num.h:
lib/base/utf8.h:
