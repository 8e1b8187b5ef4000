build-tsan/lib/vm/prog_build.o: lib/vm/prog_build.c lib/array/device.h \
 lib/engine/engine.h lib/engine/pool.h lib/base/kv_err.h \
 lib/array/kv_array.h lib/base/mem.h lib/base/kv_err.h lib/vm/arith.h \
 lib/vm/prog.h lib/vm/kernel.h lib/vm/program.h lib/array/kv_array.h \
 lib/base/buf.h
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/vm/arith.h:
lib/vm/prog.h:
lib/vm/kernel.h:
lib/vm/program.h:
lib/array/kv_array.h:
lib/base/buf.h:
