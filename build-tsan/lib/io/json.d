build-tsan/lib/io/json.o: lib/io/json.c lib/io/json.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/base/buf.h lib/base/kv_err.h \
 lib/base/file.h lib/base/mem.h lib/base/utf8.h lib/io/element.h \
 lib/base/num.h lib/io/json_numbers.h
lib/io/json.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/file.h:
lib/base/mem.h:
lib/base/utf8.h:
lib/io/element.h:
lib/base/num.h:
lib/io/json_numbers.h:
