build-tsan/lib/vm/kernel.o: lib/vm/kernel.c lib/vm/kernel.h \
 lib/vm/program.h lib/array/kv_array.h lib/base/kv_err.h lib/base/buf.h \
 lib/base/kv_err.h lib/vm/kernel_loops.h lib/vm/arith.h
lib/vm/kernel.h:
lib/vm/program.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/vm/kernel_loops.h:
lib/vm/arith.h:
