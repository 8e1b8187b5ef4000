build-tsan/lib/base/suggest.o: lib/base/suggest.c lib/base/suggest.h \
 lib/base/kv_err.h
lib/base/suggest.h:
lib/base/kv_err.h:
