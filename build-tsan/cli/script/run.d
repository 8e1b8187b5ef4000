build-tsan/cli/script/run.o: cli/script/run.c lib/base/mem.h \
 lib/base/kv_err.h cli/script/commands.h cli/script/command.h \
 lib/lang/ast.h cli/script/rows.h cli/script/value.h lib/base/buf.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/vm/host.h \
 cli/script/session.h lib/base/map.h lib/io/print.h lib/array/kv_array.h \
 src/kvstore.h lib/lang/source.h cli/script/eval.h cli/script/save.h \
 cli/script/shell.h cli/script/function.h cli/script/record.h \
 cli/script/report.h cli/script/show.h cli/script/statement.h \
 lib/lang/parse.h lib/lang/lex.h cli/script/transcript.h \
 cli/script/unit.h cli/term/progress.h
lib/base/mem.h:
lib/base/kv_err.h:
cli/script/commands.h:
cli/script/command.h:
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
cli/script/eval.h:
cli/script/save.h:
cli/script/shell.h:
cli/script/function.h:
cli/script/record.h:
cli/script/report.h:
cli/script/show.h:
cli/script/statement.h:
lib/lang/parse.h:
lib/lang/lex.h:
cli/script/transcript.h:
cli/script/unit.h:
cli/term/progress.h:
