build-tsan/cli/script/transcript.o: cli/script/transcript.c \
 cli/script/transcript.h lib/lang/ast.h lib/lang/source.h \
 lib/base/kv_err.h cli/script/session.h lib/base/buf.h lib/base/kv_err.h \
 lib/base/map.h lib/io/print.h lib/array/kv_array.h src/kvstore.h \
 lib/array/kv_array.h cli/script/value.h lib/vm/host.h lib/base/mem.h \
 lib/base/file.h
cli/script/transcript.h:
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
lib/base/file.h:
