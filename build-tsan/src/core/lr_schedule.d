build-tsan/src/core/lr_schedule.o: src/core/lr_schedule.c \
 src/core/lr_schedule.h lib/base/buf.h lib/base/kv_err.h lib/base/mem.h \
 lib/base/num.h lib/base/suggest.h lib/lang/parse.h lib/base/map.h \
 lib/lang/ast.h lib/lang/lex.h lib/lang/source.h lib/base/kv_err.h \
 lib/vm/host.h
src/core/lr_schedule.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/base/num.h:
lib/base/suggest.h:
lib/lang/parse.h:
lib/base/map.h:
lib/lang/ast.h:
lib/lang/lex.h:
lib/lang/source.h:
lib/base/kv_err.h:
lib/vm/host.h:
