build-tsan/tests/unit/test_rule.o: tests/unit/test_rule.c lib/vm/rule.h \
 lib/lang/ast.h lib/lang/source.h lib/base/kv_err.h lib/vm/host.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/mem.h lib/vm/plan.h \
 lib/vm/program.h lib/array/kv_array.h lib/array/device.h \
 lib/engine/engine.h lib/engine/pool.h lib/array/kv_array.h \
 lib/lang/parse.h lib/base/map.h lib/lang/lex.h tests/unit/test.h
lib/vm/rule.h:
lib/lang/ast.h:
lib/lang/source.h:
lib/base/kv_err.h:
lib/vm/host.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/vm/plan.h:
lib/vm/program.h:
lib/array/kv_array.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/array/kv_array.h:
lib/lang/parse.h:
lib/base/map.h:
lib/lang/lex.h:
tests/unit/test.h:
