build-tsan/cli/options.o: cli/options.c cli/options.h lib/base/buf.h \
 lib/base/kv_err.h lib/base/kv_err.h cli/term/terminal.h lib/base/mem.h \
 lib/base/num.h lib/base/suggest.h
cli/options.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/kv_err.h:
cli/term/terminal.h:
lib/base/mem.h:
lib/base/num.h:
lib/base/suggest.h:
