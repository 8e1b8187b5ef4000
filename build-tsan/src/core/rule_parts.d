build-tsan/src/core/rule_parts.o: src/core/rule_parts.c \
 src/core/rule_parts.h src/core/image.h lib/base/mem.h lib/base/kv_err.h \
 lib/io/safetensors.h lib/array/kv_array.h lib/base/kv_err.h \
 src/core/updater.h src/core/apply.h lib/array/kv_array.h lib/vm/plan.h \
 lib/vm/program.h lib/base/buf.h src/core/call.h lib/array/device.h \
 lib/engine/engine.h lib/engine/pool.h lib/array/kv_array.h \
 src/core/slot.h lib/base/map.h src/kvstore.h lib/vm/rule.h \
 lib/lang/ast.h lib/lang/source.h lib/vm/host.h src/core/optimizer.h \
 src/core/kv_rule.h src/core/lr_schedule.h src/core/slot_state.h
src/core/rule_parts.h:
src/core/image.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/io/safetensors.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
src/core/updater.h:
src/core/apply.h:
lib/array/kv_array.h:
lib/vm/plan.h:
lib/vm/program.h:
lib/base/buf.h:
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
src/core/optimizer.h:
src/core/kv_rule.h:
src/core/lr_schedule.h:
src/core/slot_state.h:
