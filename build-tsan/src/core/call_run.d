build-tsan/src/core/call_run.o: src/core/call_run.c lib/array/sparse.h \
 lib/array/device.h lib/engine/engine.h lib/engine/pool.h \
 lib/base/kv_err.h lib/array/kv_array.h lib/base/mem.h lib/base/kv_err.h \
 src/core/call.h src/core/apply.h lib/array/kv_array.h lib/vm/plan.h \
 lib/vm/program.h lib/array/kv_array.h lib/base/buf.h src/core/slot.h \
 lib/base/map.h src/kvstore.h lib/vm/rule.h lib/lang/ast.h \
 lib/lang/source.h lib/vm/host.h
lib/array/sparse.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/base/mem.h:
lib/base/kv_err.h:
src/core/call.h:
src/core/apply.h:
lib/array/kv_array.h:
lib/vm/plan.h:
lib/vm/program.h:
lib/array/kv_array.h:
lib/base/buf.h:
src/core/slot.h:
lib/base/map.h:
src/kvstore.h:
lib/vm/rule.h:
lib/lang/ast.h:
lib/lang/source.h:
lib/vm/host.h:
