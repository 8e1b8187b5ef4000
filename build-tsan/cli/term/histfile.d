build-tsan/cli/term/histfile.o: cli/term/histfile.c cli/term/histfile.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/file.h
cli/term/histfile.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/file.h:
