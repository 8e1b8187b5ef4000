build-tsan/src/core/updater.o: src/core/updater.c src/core/updater.h \
 src/core/apply.h lib/array/kv_array.h lib/base/kv_err.h lib/vm/plan.h \
 lib/vm/program.h lib/array/kv_array.h lib/base/buf.h lib/base/kv_err.h \
 src/core/call.h lib/array/device.h lib/engine/engine.h lib/engine/pool.h \
 lib/array/kv_array.h src/core/slot.h lib/base/map.h src/kvstore.h \
 lib/vm/rule.h lib/lang/ast.h lib/lang/source.h lib/vm/host.h \
 lib/base/mem.h src/core/optimizer.h src/core/kv_rule.h \
 src/core/lr_schedule.h src/core/slot_state.h lib/array/sparse.h
src/core/updater.h:
src/core/apply.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/vm/plan.h:
lib/vm/program.h:
lib/array/kv_array.h:
lib/base/buf.h:
lib/base/kv_err.h:
src/core/call.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/array/kv_array.h:
src/core/slot.h:
lib/base/map.h:
src/kvstore.h:
lib/vm/rule.h:
lib/lang/ast.h:
lib/lang/source.h:
lib/vm/host.h:
lib/base/mem.h:
src/core/optimizer.h:
src/core/kv_rule.h:
src/core/lr_schedule.h:
src/core/slot_state.h:
lib/array/sparse.h:
