build-tsan/tests/unit/test_engine.o: tests/unit/test_engine.c \
 lib/engine/engine.h lib/engine/pool.h lib/base/kv_err.h \
 tests/unit/test.h
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
tests/unit/test.h:
