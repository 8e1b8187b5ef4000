build-tsan/cli/script/file_kind.o: cli/script/file_kind.c \
 cli/script/file_kind.h lib/base/kv_err.h lib/base/buf.h \
 lib/base/kv_err.h lib/base/suggest.h
cli/script/file_kind.h:
lib/base/kv_err.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/suggest.h:
