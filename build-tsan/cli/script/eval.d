build-tsan/cli/script/eval.o: cli/script/eval.c cli/script/eval.h \
 lib/lang/ast.h lib/base/mem.h lib/base/kv_err.h cli/script/session.h \
 lib/base/buf.h lib/base/map.h lib/io/print.h lib/array/kv_array.h \
 lib/base/kv_err.h src/kvstore.h lib/array/kv_array.h lib/lang/source.h \
 cli/script/value.h lib/vm/host.h lib/array/slice.h lib/array/kv_array.h \
 lib/array/device.h lib/engine/engine.h lib/engine/pool.h \
 lib/base/suggest.h cli/script/eval_tree.h cli/script/load.h \
 lib/io/safetensors.h cli/script/function.h cli/script/show.h \
 cli/script/command.h cli/script/rows.h cli/script/statement.h \
 lib/lang/parse.h lib/lang/lex.h cli/script/unit.h \
 cli/script/value_stack.h cli/term/progress.h
cli/script/eval.h:
lib/lang/ast.h:
lib/base/mem.h:
lib/base/kv_err.h:
cli/script/session.h:
lib/base/buf.h:
lib/base/map.h:
lib/io/print.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
src/kvstore.h:
lib/array/kv_array.h:
lib/lang/source.h:
cli/script/value.h:
lib/vm/host.h:
lib/array/slice.h:
lib/array/kv_array.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/base/suggest.h:
cli/script/eval_tree.h:
cli/script/load.h:
lib/io/safetensors.h:
cli/script/function.h:
cli/script/show.h:
cli/script/command.h:
cli/script/rows.h:
cli/script/statement.h:
lib/lang/parse.h:
lib/lang/lex.h:
cli/script/unit.h:
cli/script/value_stack.h:
cli/term/progress.h:
