build-tsan/lib/engine/engine.o: lib/engine/engine.c lib/engine/engine.h \
 lib/engine/pool.h lib/base/kv_err.h
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
