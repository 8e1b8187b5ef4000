build-tsan/lib/lang/parse_expr.o: lib/lang/parse_expr.c lib/base/buf.h \
 lib/base/kv_err.h lib/lang/parse.h lib/base/map.h lib/base/mem.h \
 lib/lang/ast.h lib/lang/lex.h lib/lang/source.h lib/base/kv_err.h
lib/base/buf.h:
lib/base/kv_err.h:
lib/lang/parse.h:
lib/base/map.h:
lib/base/mem.h:
lib/lang/ast.h:
lib/lang/lex.h:
lib/lang/source.h:
lib/base/kv_err.h:
