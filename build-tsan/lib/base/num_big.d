build-tsan/lib/base/num_big.o: lib/base/num_big.c lib/base/num_big.h
lib/base/num_big.h:
