build-tsan/lib/base/num_format.o: lib/base/num_format.c lib/base/num.h \
 lib/base/num_big.h lib/base/num_powers.h
lib/base/num.h:
lib/base/num_big.h:
lib/base/num_powers.h:
