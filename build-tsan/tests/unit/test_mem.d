build-tsan/tests/unit/test_mem.o: tests/unit/test_mem.c tests/unit/test.h \
 lib/base/kv_err.h lib/base/buf.h lib/base/kv_err.h lib/base/map.h \
 lib/base/mem.h
tests/unit/test.h:
lib/base/kv_err.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/map.h:
lib/base/mem.h:
