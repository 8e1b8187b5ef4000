build-tsan/src/core/slot.o: src/core/slot.c src/core/slot.h \
 lib/base/map.h lib/base/kv_err.h lib/array/kv_array.h lib/base/kv_err.h \
 lib/base/mem.h lib/base/utf8.h src/core/slot_state.h lib/vm/rule.h \
 lib/lang/ast.h lib/lang/source.h lib/vm/host.h lib/base/buf.h \
 lib/vm/plan.h lib/vm/program.h lib/array/kv_array.h
src/core/slot.h:
lib/base/map.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/base/utf8.h:
src/core/slot_state.h:
lib/vm/rule.h:
lib/lang/ast.h:
lib/lang/source.h:
lib/vm/host.h:
lib/base/buf.h:
lib/vm/plan.h:
lib/vm/program.h:
lib/array/kv_array.h:
