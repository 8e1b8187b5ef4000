build-tsan/cli/term/pager.o: cli/term/pager.c cli/term/pager.h \
 cli/term/interrupt.h cli/term/line.h lib/base/buf.h lib/base/kv_err.h \
 cli/term/terminal.h lib/base/kv_err.h
cli/term/pager.h:
cli/term/interrupt.h:
cli/term/line.h:
lib/base/buf.h:
lib/base/kv_err.h:
cli/term/terminal.h:
lib/base/kv_err.h:
