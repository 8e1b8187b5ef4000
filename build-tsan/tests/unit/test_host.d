build-tsan/tests/unit/test_host.o: tests/unit/test_host.c lib/vm/host.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/mem.h lib/lang/ast.h \
 tests/unit/test.h lib/base/kv_err.h
lib/vm/host.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/lang/ast.h:
tests/unit/test.h:
lib/base/kv_err.h:
