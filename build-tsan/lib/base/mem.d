build-tsan/lib/base/mem.o: lib/base/mem.c lib/base/mem.h \
 lib/base/kv_err.h
lib/base/mem.h:
lib/base/kv_err.h:
