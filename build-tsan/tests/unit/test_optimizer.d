build-tsan/tests/unit/test_optimizer.o: tests/unit/test_optimizer.c \
 src/core/optimizer.h src/core/kv_rule.h lib/base/mem.h lib/base/kv_err.h \
 src/kvstore.h lib/array/kv_array.h lib/base/kv_err.h lib/lang/ast.h \
 lib/lang/source.h src/core/lr_schedule.h lib/base/buf.h src/core/slot.h \
 lib/base/map.h src/core/slot_state.h lib/vm/rule.h lib/vm/host.h \
 lib/vm/plan.h lib/vm/program.h lib/array/kv_array.h tests/unit/test.h \
 tests/unit/test_io.h lib/io/element.h lib/base/num.h
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
tests/unit/test.h:
tests/unit/test_io.h:
lib/io/element.h:
lib/base/num.h:
