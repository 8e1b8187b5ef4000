build-tsan/tests/unit/test_script_progress.o: \
 tests/unit/test_script_progress.c tests/unit/test.h lib/base/kv_err.h \
 lib/base/mem.h lib/base/kv_err.h cli/term/paste.h lib/base/buf.h \
 cli/term/progress.h
tests/unit/test.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/base/kv_err.h:
cli/term/paste.h:
lib/base/buf.h:
cli/term/progress.h:
