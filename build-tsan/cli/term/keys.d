build-tsan/cli/term/keys.o: cli/term/keys.c cli/term/keys.h \
 lib/base/buf.h lib/base/kv_err.h cli/term/interrupt.h
cli/term/keys.h:
lib/base/buf.h:
lib/base/kv_err.h:
cli/term/interrupt.h:
