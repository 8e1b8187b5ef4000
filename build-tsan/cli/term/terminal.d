build-tsan/cli/term/terminal.o: cli/term/terminal.c cli/term/terminal.h \
 lib/base/kv_err.h lib/base/suggest.h lib/base/kv_err.h
cli/term/terminal.h:
lib/base/kv_err.h:
lib/base/suggest.h:
lib/base/kv_err.h:
