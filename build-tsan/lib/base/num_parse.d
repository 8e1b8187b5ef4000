build-tsan/lib/base/num_parse.o: lib/base/num_parse.c lib/base/num.h \
 lib/base/num_big.h lib/base/num_powers.h
lib/base/num.h:
lib/base/num_big.h:
lib/base/num_powers.h:
