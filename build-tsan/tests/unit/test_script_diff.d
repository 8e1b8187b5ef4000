build-tsan/tests/unit/test_script_diff.o: tests/unit/test_script_diff.c \
 cli/script/diff.h lib/base/buf.h lib/base/kv_err.h tests/unit/test.h \
 lib/base/kv_err.h
cli/script/diff.h:
lib/base/buf.h:
lib/base/kv_err.h:
tests/unit/test.h:
lib/base/kv_err.h:
