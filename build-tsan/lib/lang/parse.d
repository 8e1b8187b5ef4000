build-tsan/lib/lang/parse.o: lib/lang/parse.c lib/lang/parse.h \
 lib/base/map.h lib/base/kv_err.h lib/base/mem.h lib/lang/ast.h \
 lib/lang/lex.h lib/lang/source.h lib/base/kv_err.h lib/base/utf8.h
lib/lang/parse.h:
lib/base/map.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/lang/ast.h:
lib/lang/lex.h:
lib/lang/source.h:
lib/base/kv_err.h:
lib/base/utf8.h:
