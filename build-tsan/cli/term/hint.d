build-tsan/cli/term/hint.o: cli/term/hint.c cli/term/hint.h \
 lib/base/buf.h lib/base/kv_err.h
cli/term/hint.h:
lib/base/buf.h:
lib/base/kv_err.h:
