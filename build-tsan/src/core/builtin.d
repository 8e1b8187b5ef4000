build-tsan/src/core/builtin.o: src/core/builtin.c src/core/builtin.h \
 src/kvstore.h lib/array/kv_array.h lib/base/kv_err.h lib/base/suggest.h \
 lib/base/kv_err.h
src/core/builtin.h:
src/kvstore.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/base/suggest.h:
lib/base/kv_err.h:
