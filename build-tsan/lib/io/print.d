build-tsan/lib/io/print.o: lib/io/print.c lib/io/print.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/base/buf.h lib/base/kv_err.h \
 lib/io/element.h lib/base/num.h
lib/io/print.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/io/element.h:
lib/base/num.h:
