build-tsan/cli/script/session.o: cli/script/session.c \
 cli/script/session.h lib/base/buf.h lib/base/kv_err.h lib/base/map.h \
 lib/io/print.h lib/array/kv_array.h lib/base/kv_err.h src/kvstore.h \
 lib/array/kv_array.h lib/lang/source.h cli/script/value.h lib/vm/host.h \
 lib/base/mem.h lib/lang/ast.h lib/base/file.h lib/base/num.h \
 cli/script/unit.h lib/lang/parse.h lib/lang/lex.h cli/term/pager.h \
 cli/term/progress.h
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
lib/base/file.h:
lib/base/num.h:
cli/script/unit.h:
lib/lang/parse.h:
lib/lang/lex.h:
cli/term/pager.h:
cli/term/progress.h:
