build-tsan/tests/unit/test_file.o: tests/unit/test_file.c \
 tests/unit/test.h lib/base/kv_err.h lib/base/file.h lib/base/kv_err.h \
 lib/base/mem.h
tests/unit/test.h:
lib/base/kv_err.h:
lib/base/file.h:
lib/base/kv_err.h:
lib/base/mem.h:
