build-tsan/cli/script/eval_index.o: cli/script/eval_index.c \
 lib/array/slice.h lib/array/kv_array.h lib/base/kv_err.h \
 cli/script/eval.h lib/lang/ast.h lib/base/mem.h lib/base/kv_err.h \
 cli/script/session.h lib/base/buf.h lib/base/map.h lib/io/print.h \
 lib/array/kv_array.h src/kvstore.h lib/array/kv_array.h \
 lib/lang/source.h cli/script/value.h lib/vm/host.h cli/script/function.h \
 cli/script/unit.h lib/lang/parse.h lib/lang/lex.h
lib/array/slice.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
cli/script/eval.h:
lib/lang/ast.h:
lib/base/mem.h:
lib/base/kv_err.h:
cli/script/session.h:
lib/base/buf.h:
lib/base/map.h:
lib/io/print.h:
lib/array/kv_array.h:
src/kvstore.h:
lib/array/kv_array.h:
lib/lang/source.h:
cli/script/value.h:
lib/vm/host.h:
cli/script/function.h:
cli/script/unit.h:
lib/lang/parse.h:
lib/lang/lex.h:
