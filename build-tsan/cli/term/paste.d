build-tsan/cli/term/paste.o: cli/term/paste.c cli/term/paste.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/mem.h
cli/term/paste.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
