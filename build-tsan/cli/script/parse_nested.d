build-tsan/cli/script/parse_nested.o: cli/script/parse_nested.c \
 lib/base/suggest.h lib/base/kv_err.h cli/script/parse_command.h \
 lib/lang/parse.h lib/base/map.h lib/base/mem.h lib/lang/ast.h \
 lib/lang/lex.h lib/lang/source.h lib/base/kv_err.h cli/script/command.h \
 cli/script/rows.h cli/script/value.h lib/base/buf.h lib/array/kv_array.h \
 lib/vm/host.h cli/script/session.h lib/io/print.h lib/array/kv_array.h \
 src/kvstore.h cli/script/statement.h
lib/base/suggest.h:
lib/base/kv_err.h:
cli/script/parse_command.h:
lib/lang/parse.h:
lib/base/map.h:
lib/base/mem.h:
lib/lang/ast.h:
lib/lang/lex.h:
lib/lang/source.h:
lib/base/kv_err.h:
cli/script/command.h:
cli/script/rows.h:
cli/script/value.h:
lib/base/buf.h:
lib/array/kv_array.h:
lib/vm/host.h:
cli/script/session.h:
lib/io/print.h:
lib/array/kv_array.h:
src/kvstore.h:
cli/script/statement.h:
