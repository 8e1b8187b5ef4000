build-tsan/lib/base/num_powers.o: lib/base/num_powers.c \
 lib/base/num_powers.h
lib/base/num_powers.h:
