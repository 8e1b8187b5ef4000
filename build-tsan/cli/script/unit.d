build-tsan/cli/script/unit.o: cli/script/unit.c cli/script/unit.h \
 lib/base/mem.h lib/base/kv_err.h lib/lang/ast.h lib/lang/parse.h \
 lib/base/map.h lib/lang/lex.h lib/lang/source.h lib/base/kv_err.h \
 cli/script/session.h lib/base/buf.h lib/io/print.h lib/array/kv_array.h \
 src/kvstore.h lib/array/kv_array.h cli/script/value.h lib/vm/host.h \
 lib/base/file.h lib/base/suggest.h cli/script/check.h \
 cli/script/command.h cli/script/rows.h cli/script/commands.h \
 cli/script/function.h cli/script/safe.h cli/script/statement.h \
 lib/vm/rule.h lib/vm/plan.h lib/vm/program.h
cli/script/unit.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/lang/ast.h:
lib/lang/parse.h:
lib/base/map.h:
lib/lang/lex.h:
lib/lang/source.h:
lib/base/kv_err.h:
cli/script/session.h:
lib/base/buf.h:
lib/io/print.h:
lib/array/kv_array.h:
src/kvstore.h:
lib/array/kv_array.h:
cli/script/value.h:
lib/vm/host.h:
lib/base/file.h:
lib/base/suggest.h:
cli/script/check.h:
cli/script/command.h:
cli/script/rows.h:
cli/script/commands.h:
cli/script/function.h:
cli/script/safe.h:
cli/script/statement.h:
lib/vm/rule.h:
lib/vm/plan.h:
lib/vm/program.h:
