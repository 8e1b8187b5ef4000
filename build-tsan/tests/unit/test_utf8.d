build-tsan/tests/unit/test_utf8.o: tests/unit/test_utf8.c \
 tests/unit/test.h lib/base/kv_err.h lib/base/utf8.h
tests/unit/test.h:
lib/base/kv_err.h:
lib/base/utf8.h:
