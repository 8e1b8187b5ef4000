build-tsan/lib/vm/rule_check.o: lib/vm/rule_check.c lib/base/suggest.h \
 lib/base/kv_err.h lib/vm/rule.h lib/lang/ast.h lib/lang/source.h \
 lib/base/kv_err.h lib/vm/host.h lib/base/buf.h lib/base/mem.h \
 lib/vm/plan.h lib/vm/program.h lib/array/kv_array.h lib/vm/rule_env.h
lib/base/suggest.h:
lib/base/kv_err.h:
lib/vm/rule.h:
lib/lang/ast.h:
lib/lang/source.h:
lib/base/kv_err.h:
lib/vm/host.h:
lib/base/buf.h:
lib/base/mem.h:
lib/vm/plan.h:
lib/vm/program.h:
lib/array/kv_array.h:
lib/vm/rule_env.h:
