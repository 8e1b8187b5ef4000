build-tsan/tests/unit/run.o: tests/unit/run.c tests/unit/test.h \
 lib/base/kv_err.h build-tsan/test_list.h
tests/unit/test.h:
lib/base/kv_err.h:
build-tsan/test_list.h:
