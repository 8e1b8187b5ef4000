build-tsan/cli/script/save.o: cli/script/save.c cli/script/save.h \
 cli/script/command.h lib/base/mem.h lib/base/kv_err.h lib/lang/ast.h \
 cli/script/rows.h cli/script/value.h lib/base/buf.h lib/array/kv_array.h \
 lib/base/kv_err.h lib/vm/host.h cli/script/session.h lib/base/map.h \
 lib/io/print.h lib/array/kv_array.h src/kvstore.h lib/lang/source.h \
 lib/base/file.h lib/io/csv.h lib/io/json.h lib/io/npy.h \
 lib/io/safetensors.h cli/script/file_kind.h cli/script/save_rows.h \
 cli/script/safe.h cli/script/show.h cli/script/watch.h
cli/script/save.h:
cli/script/command.h:
lib/base/mem.h:
lib/base/kv_err.h:
lib/lang/ast.h:
cli/script/rows.h:
cli/script/value.h:
lib/base/buf.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/vm/host.h:
cli/script/session.h:
lib/base/map.h:
lib/io/print.h:
lib/array/kv_array.h:
src/kvstore.h:
lib/lang/source.h:
lib/base/file.h:
lib/io/csv.h:
lib/io/json.h:
lib/io/npy.h:
lib/io/safetensors.h:
cli/script/file_kind.h:
cli/script/save_rows.h:
cli/script/safe.h:
cli/script/show.h:
cli/script/watch.h:
