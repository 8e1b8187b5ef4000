build-tsan/lib/lang/lex.o: lib/lang/lex.c lib/lang/lex.h \
 lib/lang/source.h lib/base/kv_err.h lib/base/num.h lib/base/utf8.h
lib/lang/lex.h:
lib/lang/source.h:
lib/base/kv_err.h:
lib/base/num.h:
lib/base/utf8.h:
