build-tsan/lib/cpu/half.o: lib/cpu/half.c lib/cpu/half.h lib/cpu/clones.h
lib/cpu/half.h:
lib/cpu/clones.h:
