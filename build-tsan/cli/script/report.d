build-tsan/cli/script/report.o: cli/script/report.c cli/script/report.h \
 cli/script/session.h lib/base/buf.h lib/base/kv_err.h lib/base/map.h \
 lib/io/print.h lib/array/kv_array.h lib/base/kv_err.h src/kvstore.h \
 lib/array/kv_array.h lib/lang/source.h cli/script/value.h lib/vm/host.h \
 lib/base/mem.h lib/lang/ast.h cli/script/record.h cli/script/command.h \
 cli/script/rows.h cli/script/transcript.h lib/base/utf8.h \
 cli/script/unit.h lib/lang/parse.h lib/lang/lex.h cli/term/progress.h \
 cli/term/terminal.h
cli/script/report.h:
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
cli/script/record.h:
cli/script/command.h:
cli/script/rows.h:
cli/script/transcript.h:
lib/base/utf8.h:
cli/script/unit.h:
lib/lang/parse.h:
lib/lang/lex.h:
cli/term/progress.h:
cli/term/terminal.h:
