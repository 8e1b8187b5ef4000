build-tsan/cli/script/command.o: cli/script/command.c \
 cli/script/command.h lib/base/mem.h lib/base/kv_err.h lib/lang/ast.h \
 cli/script/rows.h cli/script/value.h lib/base/buf.h lib/array/kv_array.h \
 lib/base/kv_err.h lib/vm/host.h cli/script/session.h lib/base/map.h \
 lib/io/print.h lib/array/kv_array.h src/kvstore.h lib/lang/source.h \
 cli/script/commands.h cli/script/eval.h cli/script/statement.h \
 lib/lang/parse.h lib/lang/lex.h cli/script/unit.h
cli/script/command.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/lang/ast.h:
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
cli/script/commands.h:
cli/script/eval.h:
cli/script/statement.h:
lib/lang/parse.h:
lib/lang/lex.h:
cli/script/unit.h:
