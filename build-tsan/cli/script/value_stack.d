build-tsan/cli/script/value_stack.o: cli/script/value_stack.c \
 cli/script/value_stack.h cli/script/value.h lib/base/buf.h \
 lib/base/kv_err.h lib/array/kv_array.h lib/base/kv_err.h lib/vm/host.h \
 lib/base/mem.h lib/lang/ast.h
cli/script/value_stack.h:
cli/script/value.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/vm/host.h:
lib/base/mem.h:
lib/lang/ast.h:
