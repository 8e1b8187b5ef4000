build-tsan/lib/lang/source.o: lib/lang/source.c lib/lang/source.h \
 lib/base/kv_err.h
lib/lang/source.h:
lib/base/kv_err.h:
