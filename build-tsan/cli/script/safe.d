build-tsan/cli/script/safe.o: cli/script/safe.c cli/script/safe.h \
 lib/lang/ast.h lib/lang/source.h lib/base/kv_err.h cli/script/session.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/map.h lib/io/print.h \
 lib/array/kv_array.h src/kvstore.h lib/array/kv_array.h \
 cli/script/value.h lib/vm/host.h lib/base/mem.h cli/script/command.h \
 cli/script/rows.h cli/script/statement.h lib/lang/parse.h lib/lang/lex.h
cli/script/safe.h:
lib/lang/ast.h:
lib/lang/source.h:
lib/base/kv_err.h:
cli/script/session.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/map.h:
lib/io/print.h:
lib/array/kv_array.h:
src/kvstore.h:
lib/array/kv_array.h:
cli/script/value.h:
lib/vm/host.h:
lib/base/mem.h:
cli/script/command.h:
cli/script/rows.h:
cli/script/statement.h:
lib/lang/parse.h:
lib/lang/lex.h:
