build-tsan/cli/script/named.o: cli/script/named.c cli/script/named.h \
 lib/io/safetensors.h lib/array/kv_array.h lib/base/kv_err.h \
 cli/script/eval.h lib/lang/ast.h lib/base/mem.h lib/base/kv_err.h \
 cli/script/session.h lib/base/buf.h lib/base/map.h lib/io/print.h \
 src/kvstore.h lib/array/kv_array.h lib/lang/source.h cli/script/value.h \
 lib/vm/host.h lib/base/num.h cli/script/unit.h lib/lang/parse.h \
 lib/lang/lex.h
cli/script/named.h:
lib/io/safetensors.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
cli/script/eval.h:
lib/lang/ast.h:
lib/base/mem.h:
lib/base/kv_err.h:
cli/script/session.h:
lib/base/buf.h:
lib/base/map.h:
lib/io/print.h:
src/kvstore.h:
lib/array/kv_array.h:
lib/lang/source.h:
cli/script/value.h:
lib/vm/host.h:
lib/base/num.h:
cli/script/unit.h:
lib/lang/parse.h:
lib/lang/lex.h:
