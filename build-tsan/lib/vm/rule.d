build-tsan/lib/vm/rule.o: lib/vm/rule.c lib/vm/rule.h lib/lang/ast.h \
 lib/lang/source.h lib/base/kv_err.h lib/vm/host.h lib/base/buf.h \
 lib/base/kv_err.h lib/base/mem.h lib/vm/plan.h lib/vm/program.h \
 lib/array/kv_array.h lib/vm/element.h lib/vm/rule_env.h
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
lib/vm/element.h:
lib/vm/rule_env.h:
