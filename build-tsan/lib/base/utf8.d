build-tsan/lib/base/utf8.o: lib/base/utf8.c lib/base/utf8.h
lib/base/utf8.h:
