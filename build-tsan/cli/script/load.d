build-tsan/cli/script/load.o: cli/script/load.c cli/script/load.h \
 lib/io/safetensors.h lib/array/kv_array.h lib/base/kv_err.h \
 lib/lang/ast.h cli/script/function.h cli/script/session.h lib/base/buf.h \
 lib/base/kv_err.h lib/base/map.h lib/io/print.h src/kvstore.h \
 lib/array/kv_array.h lib/lang/source.h cli/script/value.h lib/vm/host.h \
 lib/base/mem.h lib/io/csv.h lib/io/json.h lib/io/npy.h lib/lang/lex.h \
 cli/script/datafile.h cli/script/eval.h cli/script/file_kind.h \
 cli/script/unit.h lib/lang/parse.h
cli/script/load.h:
lib/io/safetensors.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/lang/ast.h:
cli/script/function.h:
cli/script/session.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/map.h:
lib/io/print.h:
src/kvstore.h:
lib/array/kv_array.h:
lib/lang/source.h:
cli/script/value.h:
lib/vm/host.h:
lib/base/mem.h:
lib/io/csv.h:
lib/io/json.h:
lib/io/npy.h:
lib/lang/lex.h:
cli/script/datafile.h:
cli/script/eval.h:
cli/script/file_kind.h:
cli/script/unit.h:
lib/lang/parse.h:
