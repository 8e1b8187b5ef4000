build-tsan/tests/unit/test_parse_key.o: tests/unit/test_parse_key.c \
 tests/unit/test_lang.h lib/base/buf.h lib/base/kv_err.h lib/base/num.h \
 lib/lang/parse.h lib/base/map.h lib/base/mem.h lib/lang/ast.h \
 lib/lang/lex.h lib/lang/source.h lib/base/kv_err.h tests/unit/test.h
tests/unit/test_lang.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/num.h:
lib/lang/parse.h:
lib/base/map.h:
lib/base/mem.h:
lib/lang/ast.h:
lib/lang/lex.h:
lib/lang/source.h:
lib/base/kv_err.h:
tests/unit/test.h:
