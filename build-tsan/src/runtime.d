build-tsan/src/runtime.o: src/runtime.c src/runtime.h src/kvstore.h \
 lib/array/kv_array.h lib/base/kv_err.h lib/array/device.h \
 lib/engine/engine.h lib/engine/pool.h lib/array/kv_array.h \
 lib/base/buf.h lib/base/kv_err.h lib/base/mem.h lib/base/suggest.h \
 src/local/local.h src/kvstore.h
src/runtime.h:
src/kvstore.h:
lib/array/kv_array.h:
lib/base/kv_err.h:
lib/array/device.h:
lib/engine/engine.h:
lib/engine/pool.h:
lib/array/kv_array.h:
lib/base/buf.h:
lib/base/kv_err.h:
lib/base/mem.h:
lib/base/suggest.h:
src/local/local.h:
src/kvstore.h:
