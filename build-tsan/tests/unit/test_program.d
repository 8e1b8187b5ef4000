build-tsan/tests/unit/test_program.o: tests/unit/test_program.c \
 lib/vm/program.h lib/array/kv_array.h lib/base/kv_err.h lib/base/buf.h \
 lib/base/kv_err.h lib/array/device.h lib/engine/engine.h \
 lib/engine/pool.h lib/array/kv_array.h lib/base/mem.h tests/unit/test.h \
 lib/vm/kernel.h
lib/vm/program.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/array/kv_array.h:
lib/base/mem.h:
tests/unit/test.h:
lib/vm/kernel.h:
