build-tsan/cli/complete.o: cli/complete.c cli/complete.h \
 cli/script/session.h lib/base/buf.h lib/base/kv_err.h lib/base/map.h \
 lib/io/print.h lib/array/kv_array.h lib/base/kv_err.h src/kvstore.h \
 lib/array/kv_array.h lib/lang/source.h cli/script/value.h lib/vm/host.h \
 lib/base/mem.h lib/lang/ast.h cli/term/line.h cli/cursor.h \
 cli/script/command.h cli/script/rows.h cli/script/session.h \
 lib/lang/lex.h cli/script/file_kind.h cli/script/function.h \
 cli/script/setting.h cli/script/show.h cli/script/command.h \
 cli/script/unit.h lib/lang/parse.h
cli/complete.h:
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
cli/term/line.h:
cli/cursor.h:
cli/script/command.h:
cli/script/rows.h:
cli/script/session.h:
lib/lang/lex.h:
cli/script/file_kind.h:
cli/script/function.h:
cli/script/setting.h:
cli/script/show.h:
cli/script/command.h:
cli/script/unit.h:
lib/lang/parse.h:
