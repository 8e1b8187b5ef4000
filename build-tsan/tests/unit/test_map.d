build-tsan/tests/unit/test_map.o: tests/unit/test_map.c tests/unit/test.h \
 lib/base/kv_err.h lib/base/map.h lib/base/kv_err.h lib/base/mem.h
tests/unit/test.h:
lib/base/kv_err.h:
lib/base/map.h:
lib/base/kv_err.h:
lib/base/mem.h:
