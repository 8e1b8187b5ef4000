build-tsan/cli/script/check.o: cli/script/check.c cli/script/check.h \
 lib/lang/parse.h lib/base/map.h lib/base/kv_err.h lib/base/mem.h \
 lib/lang/ast.h lib/lang/lex.h lib/lang/source.h lib/base/kv_err.h \
 cli/script/session.h lib/base/buf.h lib/io/print.h lib/array/kv_array.h \
 src/kvstore.h lib/array/kv_array.h cli/script/value.h lib/vm/host.h \
 cli/script/report.h
cli/script/check.h:
lib/lang/parse.h:
lib/base/map.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/lang/ast.h:
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
cli/script/report.h:
