build-tsan/src/core/state_parts.o: src/core/state_parts.c \
 src/core/state_parts.h src/core/image.h lib/base/mem.h lib/base/kv_err.h \
 lib/io/safetensors.h lib/array/kv_array.h lib/base/kv_err.h \
 src/core/optimizer.h src/core/kv_rule.h src/kvstore.h \
 lib/array/kv_array.h lib/lang/ast.h lib/lang/source.h \
 src/core/lr_schedule.h lib/base/buf.h src/core/slot.h lib/base/map.h \
 src/core/slot_state.h lib/vm/rule.h lib/vm/host.h lib/vm/plan.h \
 lib/vm/program.h lib/base/num.h
src/core/state_parts.h:
src/core/image.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/io/safetensors.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
src/core/optimizer.h:
src/core/kv_rule.h:
src/kvstore.h:
lib/array/kv_array.h:
lib/lang/ast.h:
lib/lang/source.h:
src/core/lr_schedule.h:
lib/base/buf.h:
src/core/slot.h:
lib/base/map.h:
src/core/slot_state.h:
lib/vm/rule.h:
lib/vm/host.h:
lib/vm/plan.h:
lib/vm/program.h:
lib/base/num.h:
