build-tsan/src/core/slot_state.o: src/core/slot_state.c \
 src/core/slot_state.h lib/array/kv_array.h lib/base/kv_err.h \
 lib/vm/rule.h lib/lang/ast.h lib/lang/source.h lib/vm/host.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/mem.h lib/vm/plan.h \
 lib/vm/program.h lib/array/kv_array.h
src/core/slot_state.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/vm/rule.h:
lib/lang/ast.h:
lib/lang/source.h:
lib/vm/host.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/vm/plan.h:
lib/vm/program.h:
lib/array/kv_array.h:
