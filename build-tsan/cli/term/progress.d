build-tsan/cli/term/progress.o: cli/term/progress.c cli/term/progress.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/num.h cli/term/terminal.h \
 lib/base/kv_err.h
cli/term/progress.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/num.h:
cli/term/terminal.h:
lib/base/kv_err.h:
