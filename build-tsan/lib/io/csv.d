build-tsan/lib/io/csv.o: lib/io/csv.c lib/io/csv.h lib/array/kv_array.h \
 lib/base/kv_err.h lib/base/buf.h lib/base/kv_err.h lib/base/file.h \
 lib/base/mem.h lib/io/element.h lib/base/num.h
lib/io/csv.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/file.h:
lib/base/mem.h:
lib/io/element.h:
lib/base/num.h:
