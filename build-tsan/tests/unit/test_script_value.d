build-tsan/tests/unit/test_script_value.o: tests/unit/test_script_value.c \
 cli/script/value.h lib/base/buf.h lib/base/kv_err.h lib/array/kv_array.h \
 lib/base/kv_err.h lib/vm/host.h lib/base/mem.h lib/lang/ast.h \
 tests/unit/test.h
cli/script/value.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/vm/host.h:
lib/base/mem.h:
lib/lang/ast.h:
tests/unit/test.h:
