build-tsan/lib/vm/expr.o: lib/vm/expr.c lib/vm/expr.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/lang/ast.h lib/lang/source.h \
 lib/vm/host.h lib/base/buf.h lib/base/kv_err.h lib/base/mem.h \
 lib/array/arrange.h lib/array/kv_array.h lib/array/device.h \
 lib/engine/engine.h lib/engine/pool.h lib/vm/element.h lib/vm/program.h \
 lib/array/kv_array.h
lib/vm/expr.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/lang/ast.h:
lib/lang/source.h:
lib/vm/host.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/array/arrange.h:
lib/array/kv_array.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/vm/element.h:
lib/vm/program.h:
lib/array/kv_array.h:
