build-tsan/lib/vm/element.o: lib/vm/element.c lib/vm/element.h \
 lib/lang/ast.h lib/vm/program.h lib/array/kv_array.h lib/base/kv_err.h \
 lib/base/buf.h lib/base/kv_err.h
lib/vm/element.h:
lib/lang/ast.h:
lib/vm/program.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/buf.h:
lib/base/kv_err.h:
