build-tsan/cli/script/setting.o: cli/script/setting.c \
 cli/script/setting.h lib/base/buf.h lib/base/kv_err.h \
 cli/script/session.h lib/base/map.h lib/io/print.h lib/array/kv_array.h \
 lib/base/kv_err.h src/kvstore.h lib/array/kv_array.h lib/lang/source.h \
 cli/script/value.h lib/vm/host.h lib/base/mem.h lib/lang/ast.h \
 lib/base/num.h lib/base/suggest.h cli/script/function.h \
 cli/script/show.h cli/script/command.h cli/script/rows.h \
 cli/term/terminal.h
cli/script/setting.h:
lib/base/buf.h:
lib/base/kv_err.h:
cli/script/session.h:
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
lib/base/num.h:
lib/base/suggest.h:
cli/script/function.h:
cli/script/show.h:
cli/script/command.h:
cli/script/rows.h:
cli/term/terminal.h:
