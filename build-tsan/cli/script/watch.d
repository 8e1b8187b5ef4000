build-tsan/cli/script/watch.o: cli/script/watch.c cli/script/watch.h \
 cli/script/session.h lib/base/buf.h lib/base/kv_err.h lib/base/map.h \
 lib/io/print.h lib/array/kv_array.h lib/base/kv_err.h src/kvstore.h \
 lib/array/kv_array.h lib/lang/source.h cli/script/value.h lib/vm/host.h \
 lib/base/mem.h lib/lang/ast.h lib/base/file.h cli/term/progress.h
cli/script/watch.h:
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
cli/term/progress.h:
