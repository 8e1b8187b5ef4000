build-tsan/tests/unit/test_num.o: tests/unit/test_num.c tests/unit/test.h \
 lib/base/kv_err.h lib/base/num.h lib/base/num_big.h \
 lib/base/num_powers.h
tests/unit/test.h:
lib/base/kv_err.h:
lib/base/num.h:
lib/base/num_big.h:
lib/base/num_powers.h:
