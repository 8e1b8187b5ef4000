build-tsan/tests/unit/test_suggest.o: tests/unit/test_suggest.c \
 lib/base/suggest.h lib/base/kv_err.h tests/unit/test.h lib/base/kv_err.h
lib/base/suggest.h:
lib/base/kv_err.h:
tests/unit/test.h:
lib/base/kv_err.h:
