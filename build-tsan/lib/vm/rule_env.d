build-tsan/lib/vm/rule_env.o: lib/vm/rule_env.c lib/vm/rule_env.h \
 lib/base/mem.h lib/base/kv_err.h lib/lang/ast.h lib/vm/host.h \
 lib/base/buf.h lib/vm/program.h lib/array/kv_array.h lib/base/kv_err.h
lib/vm/rule_env.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/lang/ast.h:
lib/vm/host.h:
lib/base/buf.h:
lib/vm/program.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
