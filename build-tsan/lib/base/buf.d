build-tsan/lib/base/buf.o: lib/base/buf.c lib/base/buf.h \
 lib/base/kv_err.h lib/base/mem.h
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
