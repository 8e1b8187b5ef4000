build-tsan/tests/unit/test_expr.o: tests/unit/test_expr.c lib/vm/expr.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/lang/ast.h lib/lang/source.h \
 lib/vm/host.h lib/base/buf.h lib/base/kv_err.h lib/base/mem.h \
 lib/array/device.h lib/engine/engine.h lib/engine/pool.h \
 lib/array/kv_array.h lib/lang/parse.h lib/base/map.h lib/lang/lex.h \
 tests/unit/test.h
lib/vm/expr.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/lang/ast.h:
lib/lang/source.h:
lib/vm/host.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/array/kv_array.h:
lib/lang/parse.h:
lib/base/map.h:
lib/lang/lex.h:
tests/unit/test.h:
