build-tsan/tests/unit/test_array.o: tests/unit/test_array.c \
 lib/array/device.h lib/engine/engine.h lib/engine/pool.h \
 lib/base/kv_err.h lib/array/kv_array.h lib/base/mem.h lib/base/kv_err.h \
 tests/unit/test.h
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/base/mem.h:
lib/base/kv_err.h:
tests/unit/test.h:
