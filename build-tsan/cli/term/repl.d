build-tsan/cli/term/repl.o: cli/term/repl.c cli/term/repl.h \
 cli/term/line.h lib/base/buf.h lib/base/kv_err.h cli/term/histfile.h \
 cli/term/interrupt.h
cli/term/repl.h:
cli/term/line.h:
lib/base/buf.h:
lib/base/kv_err.h:
cli/term/histfile.h:
cli/term/interrupt.h:
