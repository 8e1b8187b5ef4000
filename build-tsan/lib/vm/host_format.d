build-tsan/lib/vm/host_format.o: lib/vm/host_format.c lib/base/num.h \
 lib/vm/host.h lib/base/buf.h lib/base/kv_err.h lib/base/mem.h \
 lib/lang/ast.h
lib/base/num.h:
lib/vm/host.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/lang/ast.h:
