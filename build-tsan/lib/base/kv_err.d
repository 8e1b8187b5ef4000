build-tsan/lib/base/kv_err.o: lib/base/kv_err.c lib/base/kv_err.h \
 lib/base/utf8.h
lib/base/kv_err.h:
lib/base/utf8.h:
