build-tsan/lib/base/file.o: lib/base/file.c lib/base/file.h \
 lib/base/kv_err.h lib/base/mem.h
lib/base/file.h:
lib/base/kv_err.h:
lib/base/mem.h:
