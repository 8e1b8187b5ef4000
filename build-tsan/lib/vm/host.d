build-tsan/lib/vm/host.o: lib/vm/host.c lib/vm/host.h lib/base/buf.h \
 lib/base/kv_err.h lib/base/mem.h lib/lang/ast.h lib/vm/arith.h
lib/vm/host.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/lang/ast.h:
lib/vm/arith.h:
