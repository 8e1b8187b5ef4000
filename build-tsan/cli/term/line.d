build-tsan/cli/term/line.o: cli/term/line.c cli/term/line.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/file.h lib/base/mem.h \
 cli/term/hint.h cli/term/interrupt.h cli/term/keys.h cli/term/paste.h \
 cli/term/terminal.h lib/base/kv_err.h
cli/term/line.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/file.h:
lib/base/mem.h:
cli/term/hint.h:
cli/term/interrupt.h:
cli/term/keys.h:
cli/term/paste.h:
cli/term/terminal.h:
lib/base/kv_err.h:
