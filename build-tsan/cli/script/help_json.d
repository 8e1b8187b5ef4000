build-tsan/cli/script/help_json.o: cli/script/help_json.c \
 cli/script/help_json.h lib/base/buf.h lib/base/kv_err.h \
 cli/script/command.h lib/base/mem.h lib/lang/ast.h cli/script/rows.h \
 cli/script/value.h lib/array/kv_array.h lib/base/kv_err.h lib/vm/host.h \
 cli/script/session.h lib/base/map.h lib/io/print.h lib/array/kv_array.h \
 src/kvstore.h lib/lang/source.h cli/script/function.h lib/io/json.h \
 cli/script/unit.h lib/lang/parse.h lib/lang/lex.h
cli/script/help_json.h:
lib/base/buf.h:
lib/base/kv_err.h:
cli/script/command.h:
lib/base/mem.h:
lib/lang/ast.h:
cli/script/rows.h:
cli/script/value.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/vm/host.h:
cli/script/session.h:
lib/base/map.h:
lib/io/print.h:
lib/array/kv_array.h:
src/kvstore.h:
lib/lang/source.h:
cli/script/function.h:
lib/io/json.h:
cli/script/unit.h:
lib/lang/parse.h:
lib/lang/lex.h:
