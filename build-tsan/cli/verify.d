build-tsan/cli/verify.o: cli/verify.c cli/verify.h cli/script/session.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/map.h lib/io/print.h \
 lib/array/kv_array.h lib/base/kv_err.h src/kvstore.h \
 lib/array/kv_array.h lib/lang/source.h cli/script/value.h lib/vm/host.h \
 lib/base/mem.h lib/lang/ast.h lib/base/file.h cli/script/diff.h \
 cli/script/report.h cli/script/session.h cli/script/unit.h \
 lib/lang/parse.h lib/lang/lex.h
cli/verify.h:
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
cli/script/diff.h:
cli/script/report.h:
cli/script/session.h:
cli/script/unit.h:
lib/lang/parse.h:
lib/lang/lex.h:
