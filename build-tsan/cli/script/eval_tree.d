build-tsan/cli/script/eval_tree.o: cli/script/eval_tree.c \
 cli/script/eval_tree.h lib/lang/ast.h cli/script/session.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/map.h lib/io/print.h \
 lib/array/kv_array.h lib/base/kv_err.h src/kvstore.h \
 lib/array/kv_array.h lib/lang/source.h cli/script/value.h lib/vm/host.h \
 lib/base/mem.h cli/script/eval.h cli/script/show.h cli/script/command.h \
 cli/script/rows.h cli/script/unit.h lib/lang/parse.h lib/lang/lex.h \
 cli/script/value_stack.h lib/vm/expr.h
cli/script/eval_tree.h:
lib/lang/ast.h:
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
cli/script/eval.h:
cli/script/show.h:
cli/script/command.h:
cli/script/rows.h:
cli/script/unit.h:
lib/lang/parse.h:
lib/lang/lex.h:
cli/script/value_stack.h:
lib/vm/expr.h:
