build-tsan/tests/unit/test_script_record.o: \
 tests/unit/test_script_record.c cli/script/record.h lib/lang/ast.h \
 cli/script/command.h lib/base/mem.h lib/base/kv_err.h cli/script/rows.h \
 cli/script/value.h lib/base/buf.h lib/array/kv_array.h lib/base/kv_err.h \
 lib/vm/host.h cli/script/session.h lib/base/map.h lib/io/print.h \
 lib/array/kv_array.h src/kvstore.h lib/lang/source.h lib/base/utf8.h \
 cli/script/report.h cli/script/unit.h lib/lang/parse.h lib/lang/lex.h \
 tests/unit/test.h
cli/script/record.h:
lib/lang/ast.h:
cli/script/command.h:
lib/base/mem.h:
lib/base/kv_err.h:
cli/script/rows.h:
cli/script/value.h:
lib/base/buf.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/vm/host.h:
cli/script/session.h:
lib/base/map.h:
lib/io/print.h:
lib/array/kv_array.h:
src/kvstore.h:
lib/lang/source.h:
lib/base/utf8.h:
cli/script/report.h:
cli/script/unit.h:
lib/lang/parse.h:
lib/lang/lex.h:
tests/unit/test.h:
