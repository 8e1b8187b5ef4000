build-tsan/cli/prompt.o: cli/prompt.c cli/prompt.h cli/script/session.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/map.h lib/io/print.h \
 lib/array/kv_array.h lib/base/kv_err.h src/kvstore.h \
 lib/array/kv_array.h lib/lang/source.h cli/script/value.h lib/vm/host.h \
 lib/base/mem.h lib/lang/ast.h cli/complete.h cli/term/line.h \
 cli/script/report.h cli/script/session.h cli/script/transcript.h \
 cli/script/unit.h lib/lang/parse.h lib/lang/lex.h cli/term/histfile.h \
 cli/term/interrupt.h cli/term/pager.h cli/term/progress.h \
 cli/term/repl.h cli/term/line.h
cli/prompt.h:
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
cli/complete.h:
cli/term/line.h:
cli/script/report.h:
cli/script/session.h:
cli/script/transcript.h:
cli/script/unit.h:
lib/lang/parse.h:
lib/lang/lex.h:
cli/term/histfile.h:
cli/term/interrupt.h:
cli/term/pager.h:
cli/term/progress.h:
cli/term/repl.h:
cli/term/line.h:
