build-tsan/cli/script/diff.o: cli/script/diff.c cli/script/diff.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/mem.h
cli/script/diff.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
