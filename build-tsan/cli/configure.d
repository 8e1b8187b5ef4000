build-tsan/cli/configure.o: cli/configure.c cli/configure.h cli/options.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/kv_err.h cli/term/terminal.h \
 cli/script/session.h lib/base/map.h lib/io/print.h lib/array/kv_array.h \
 src/kvstore.h lib/array/kv_array.h lib/lang/source.h cli/script/value.h \
 lib/vm/host.h lib/base/mem.h lib/lang/ast.h lib/base/file.h \
 cli/script/report.h cli/script/session.h cli/script/setting.h \
 cli/script/show.h cli/script/command.h cli/script/rows.h \
 cli/script/unit.h lib/lang/parse.h lib/lang/lex.h cli/term/interrupt.h
cli/configure.h:
cli/options.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/kv_err.h:
cli/term/terminal.h:
cli/script/session.h:
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
lib/base/file.h:
cli/script/report.h:
cli/script/session.h:
cli/script/setting.h:
cli/script/show.h:
cli/script/command.h:
cli/script/rows.h:
cli/script/unit.h:
lib/lang/parse.h:
lib/lang/lex.h:
cli/term/interrupt.h:
