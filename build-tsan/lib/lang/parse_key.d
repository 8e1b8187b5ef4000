build-tsan/lib/lang/parse_key.o: lib/lang/parse_key.c lib/base/num.h \
 lib/base/utf8.h lib/lang/parse.h lib/base/map.h lib/base/kv_err.h \
 lib/base/mem.h lib/lang/ast.h lib/lang/lex.h lib/lang/source.h \
 lib/base/kv_err.h
lib/base/num.h:
lib/base/utf8.h:
lib/lang/parse.h:
lib/base/map.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/lang/ast.h:
lib/lang/lex.h:
lib/lang/source.h:
lib/base/kv_err.h:
