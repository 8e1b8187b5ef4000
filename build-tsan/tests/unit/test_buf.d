build-tsan/tests/unit/test_buf.o: tests/unit/test_buf.c tests/unit/test.h \
 lib/base/kv_err.h lib/base/buf.h lib/base/kv_err.h lib/base/mem.h
tests/unit/test.h:
lib/base/kv_err.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
