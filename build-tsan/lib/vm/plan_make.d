build-tsan/lib/vm/plan_make.o: lib/vm/plan_make.c lib/base/mem.h \
 lib/base/kv_err.h lib/vm/plan_pass.h lib/vm/plan.h lib/vm/program.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/base/buf.h lib/vm/prog.h \
 lib/vm/kernel.h
lib/base/mem.h:
lib/base/kv_err.h:
lib/vm/plan_pass.h:
lib/vm/plan.h:
lib/vm/program.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/buf.h:
lib/vm/prog.h:
lib/vm/kernel.h:
