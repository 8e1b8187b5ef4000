build-tsan/lib/vm/prog_select.o: lib/vm/prog_select.c lib/base/mem.h \
 lib/base/kv_err.h lib/vm/prog.h lib/vm/kernel.h lib/vm/program.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/base/buf.h
lib/base/mem.h:
lib/base/kv_err.h:
lib/vm/prog.h:
lib/vm/kernel.h:
lib/vm/program.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/buf.h:
