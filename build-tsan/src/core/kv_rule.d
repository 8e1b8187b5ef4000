build-tsan/src/core/kv_rule.o: src/core/kv_rule.c src/core/kv_rule.h \
 lib/base/mem.h lib/base/kv_err.h src/kvstore.h lib/array/kv_array.h \
 lib/base/kv_err.h lib/lang/ast.h lib/lang/source.h lib/lang/parse.h \
 lib/base/map.h lib/lang/lex.h lib/vm/rule.h lib/vm/host.h lib/base/buf.h \
 lib/vm/plan.h lib/vm/program.h lib/array/kv_array.h
src/core/kv_rule.h:
lib/base/mem.h:
lib/base/kv_err.h:
src/kvstore.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/lang/ast.h:
lib/lang/source.h:
lib/lang/parse.h:
lib/base/map.h:
lib/lang/lex.h:
lib/vm/rule.h:
lib/vm/host.h:
lib/base/buf.h:
lib/vm/plan.h:
lib/vm/program.h:
lib/array/kv_array.h:
