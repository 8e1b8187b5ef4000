build-tsan/lib/base/map.o: lib/base/map.c lib/base/map.h \
 lib/base/kv_err.h lib/base/mem.h
lib/base/map.h:
lib/base/kv_err.h:
lib/base/mem.h:
