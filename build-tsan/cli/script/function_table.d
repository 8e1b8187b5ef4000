build-tsan/cli/script/function_table.o: cli/script/function_table.c \
 cli/script/load.h lib/io/safetensors.h lib/array/kv_array.h \
 lib/base/kv_err.h lib/lang/ast.h cli/script/function.h \
 cli/script/session.h lib/base/buf.h lib/base/kv_err.h lib/base/map.h \
 lib/io/print.h src/kvstore.h lib/array/kv_array.h lib/lang/source.h \
 cli/script/value.h lib/vm/host.h lib/base/mem.h cli/script/func.h
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
cli/script/func.h:
