build-tsan/src/core/store_file.o: src/core/store_file.c \
 src/core/store_file.h src/core/image.h lib/base/mem.h lib/base/kv_err.h \
 lib/io/safetensors.h lib/array/kv_array.h lib/base/kv_err.h \
 src/core/store.h src/core/slot.h lib/base/map.h lib/array/kv_array.h \
 src/core/transaction.h src/core/updater.h src/core/apply.h lib/vm/plan.h \
 lib/vm/program.h lib/base/buf.h src/core/call.h lib/array/device.h \
 lib/engine/engine.h lib/engine/pool.h lib/array/kv_array.h src/kvstore.h \
 lib/vm/rule.h lib/lang/ast.h lib/lang/source.h lib/vm/host.h \
 src/core/optimizer.h src/core/kv_rule.h src/core/lr_schedule.h \
 src/core/slot_state.h lib/base/num.h src/core/rule_parts.h \
 src/core/state_parts.h
src/core/store_file.h:
src/core/image.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/io/safetensors.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
src/core/store.h:
src/core/slot.h:
lib/base/map.h:
lib/array/kv_array.h:
src/core/transaction.h:
src/core/updater.h:
src/core/apply.h:
lib/vm/plan.h:
lib/vm/program.h:
lib/base/buf.h:
src/core/call.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/array/kv_array.h:
src/kvstore.h:
lib/vm/rule.h:
lib/lang/ast.h:
lib/lang/source.h:
lib/vm/host.h:
src/core/optimizer.h:
src/core/kv_rule.h:
src/core/lr_schedule.h:
src/core/slot_state.h:
lib/base/num.h:
src/core/rule_parts.h:
src/core/state_parts.h:
