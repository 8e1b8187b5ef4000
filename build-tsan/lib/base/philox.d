build-tsan/lib/base/philox.o: lib/base/philox.c lib/base/philox.h
lib/base/philox.h:
