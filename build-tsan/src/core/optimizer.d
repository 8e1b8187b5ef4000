build-tsan/src/core/optimizer.o: src/core/optimizer.c \
 src/core/optimizer.h src/core/kv_rule.h lib/base/mem.h lib/base/kv_err.h \
 src/kvstore.h lib/array/kv_array.h lib/base/kv_err.h lib/lang/ast.h \
 lib/lang/source.h src/core/lr_schedule.h lib/base/buf.h src/core/slot.h \
 lib/base/map.h src/core/slot_state.h lib/vm/rule.h lib/vm/host.h \
 lib/vm/plan.h lib/vm/program.h lib/array/kv_array.h lib/array/device.h \
 lib/engine/engine.h lib/engine/pool.h lib/array/kv_array.h \
 lib/base/num.h lib/base/utf8.h
src/core/optimizer.h:
src/core/kv_rule.h:
lib/base/mem.h:
lib/base/kv_err.h:
src/kvstore.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
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
lib/array/kv_array.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/array/kv_array.h:
lib/base/num.h:
lib/base/utf8.h:
