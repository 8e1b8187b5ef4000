build-tsan/cli/script/cmd_doctor.o: cli/script/cmd_doctor.c \
 lib/base/file.h lib/base/kv_err.h lib/base/mem.h cli/script/commands.h \
 cli/script/command.h lib/lang/ast.h cli/script/rows.h cli/script/value.h \
 lib/base/buf.h lib/array/kv_array.h lib/base/kv_err.h lib/vm/host.h \
 cli/script/session.h lib/base/map.h lib/io/print.h lib/array/kv_array.h \
 src/kvstore.h lib/lang/source.h cli/script/report.h cli/script/unit.h \
 lib/lang/parse.h lib/lang/lex.h cli/term/histfile.h cli/term/line.h \
 cli/term/terminal.h
lib/base/file.h:
lib/base/kv_err.h:
lib/base/mem.h:
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
cli/script/report.h:
cli/script/unit.h:
lib/lang/parse.h:
lib/lang/lex.h:
cli/term/histfile.h:
cli/term/line.h:
cli/term/terminal.h:
