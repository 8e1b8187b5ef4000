build-tsan/tests/unit/test_script_parse.o: tests/unit/test_script_parse.c \
 cli/script/function.h cli/script/session.h lib/base/buf.h \
 lib/base/kv_err.h lib/base/map.h lib/io/print.h lib/array/kv_array.h \
 lib/base/kv_err.h src/kvstore.h lib/array/kv_array.h lib/lang/source.h \
 cli/script/value.h lib/vm/host.h lib/base/mem.h lib/lang/ast.h \
 cli/script/parse_command.h lib/lang/parse.h lib/lang/lex.h \
 cli/script/command.h cli/script/rows.h cli/script/statement.h \
 cli/script/unit.h tests/unit/test_lang.h lib/base/num.h \
 tests/unit/test.h
cli/script/function.h:
cli/script/session.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/map.h:
lib/io/print.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
src/kvstore.h:
lib/array/kv_array.h:
lib/lang/source.h:
cli/script/value.h:
lib/vm/host.h:
lib/base/mem.h:
lib/lang/ast.h:
cli/script/parse_command.h:
lib/lang/parse.h:
lib/lang/lex.h:
cli/script/command.h:
cli/script/rows.h:
cli/script/statement.h:
cli/script/unit.h:
tests/unit/test_lang.h:
lib/base/num.h:
tests/unit/test.h:
