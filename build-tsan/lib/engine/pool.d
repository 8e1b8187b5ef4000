build-tsan/lib/engine/pool.o: lib/engine/pool.c lib/engine/pool.h
lib/engine/pool.h:
