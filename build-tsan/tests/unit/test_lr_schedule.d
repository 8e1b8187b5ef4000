build-tsan/tests/unit/test_lr_schedule.o: tests/unit/test_lr_schedule.c \
 src/core/lr_schedule.h lib/base/buf.h lib/base/kv_err.h lib/base/mem.h \
 tests/unit/test.h lib/base/kv_err.h
src/core/lr_schedule.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
tests/unit/test.h:
lib/base/kv_err.h:
