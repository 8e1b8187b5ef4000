build-tsan/tests/unit/test_script_fuzz.o: tests/unit/test_script_fuzz.c \
 cli/script/statement.h lib/lang/ast.h lib/lang/parse.h lib/base/map.h \
 lib/base/kv_err.h lib/base/mem.h lib/lang/lex.h lib/lang/source.h \
 lib/base/kv_err.h cli/script/unit.h cli/script/session.h lib/base/buf.h \
 lib/io/print.h lib/array/kv_array.h src/kvstore.h lib/array/kv_array.h \
 cli/script/value.h lib/vm/host.h tests/unit/test_lang.h lib/base/num.h \
 tests/unit/test.h
cli/script/statement.h:
lib/lang/ast.h:
lib/lang/parse.h:
lib/base/map.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/lang/lex.h:
lib/lang/source.h:
lib/base/kv_err.h:
cli/script/unit.h:
cli/script/session.h:
lib/base/buf.h:
lib/io/print.h:
lib/array/kv_array.h:
src/kvstore.h:
lib/array/kv_array.h:
cli/script/value.h:
lib/vm/host.h:
tests/unit/test_lang.h:
lib/base/num.h:
tests/unit/test.h:
