build-tsan/lib/vm/prog_run.o: lib/vm/prog_run.c lib/array/device.h \
 lib/engine/engine.h lib/engine/pool.h lib/base/kv_err.h \
 lib/array/kv_array.h lib/base/mem.h lib/base/kv_err.h lib/base/num.h \
 lib/vm/prog.h lib/vm/kernel.h lib/vm/program.h lib/array/kv_array.h \
 lib/base/buf.h
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/base/num.h:
lib/vm/prog.h:
lib/vm/kernel.h:
lib/vm/program.h:
lib/array/kv_array.h:
lib/base/buf.h:
