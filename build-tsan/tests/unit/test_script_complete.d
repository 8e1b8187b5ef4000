build-tsan/tests/unit/test_script_complete.o: \
 tests/unit/test_script_complete.c tests/unit/test.h lib/base/kv_err.h \
 cli/complete.h cli/script/session.h lib/base/buf.h lib/base/kv_err.h \
 lib/base/map.h lib/io/print.h lib/array/kv_array.h src/kvstore.h \
 lib/array/kv_array.h lib/lang/source.h cli/script/value.h lib/vm/host.h \
 lib/base/mem.h lib/lang/ast.h cli/term/line.h cli/script/unit.h \
 lib/lang/parse.h lib/lang/lex.h cli/script/session.h
tests/unit/test.h:
lib/base/kv_err.h:
cli/complete.h:
cli/script/session.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/map.h:
lib/io/print.h:
lib/array/kv_array.h:
src/kvstore.h:
lib/array/kv_array.h:
lib/lang/source.h:
cli/script/value.h:
lib/vm/host.h:
lib/base/mem.h:
lib/lang/ast.h:
cli/term/line.h:
cli/script/unit.h:
lib/lang/parse.h:
lib/lang/lex.h:
cli/script/session.h:
