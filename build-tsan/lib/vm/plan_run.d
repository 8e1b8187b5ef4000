build-tsan/lib/vm/plan_run.o: lib/vm/plan_run.c lib/array/device.h \
 lib/engine/engine.h lib/engine/pool.h lib/base/kv_err.h \
 lib/array/kv_array.h lib/base/mem.h lib/base/kv_err.h lib/base/philox.h \
 lib/vm/plan_pass.h lib/vm/plan.h lib/vm/program.h lib/array/kv_array.h \
 lib/base/buf.h lib/vm/prog.h lib/vm/kernel.h
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/base/philox.h:
lib/vm/plan_pass.h:
lib/vm/plan.h:
lib/vm/program.h:
lib/array/kv_array.h:
lib/base/buf.h:
lib/vm/prog.h:
lib/vm/kernel.h:
