/* Pushes many small keys on gpu(0), so that callgrind can count what a key costs the host:
 *
 *     gpu_keys N [OPTIMIZER]     N keys of 16 floats, one value each, pushed twice
 *
 * tests/device/run counts what the second push costs, which leaves the start out.
 */
#include "base/mem.h"
#include "kvstore.h"
#include "tap.h"

enum { FLOATS = 16 };

int main(int argc, char **argv)
{
    const int64_t shape[] = {FLOATS};
    kv_err e = {0};
    kv *store;
    if (argc < 2) {
        fprintf(stderr, "usage: gpu_keys N [OPTIMIZER]\n");
        return 2;
    }
    int64_t n = strtoll(argv[1], NULL, 10);
    kv_key *keys = mem_alloc(n, sizeof *keys, &e);
    kv_array **values = mem_alloc(n, sizeof *values, &e);
    must(e.code, &e);
    must(kv_create("device", NULL, 0, &store, &e), &e);
    for (int64_t i = 0; i < n; i++) {
        keys[i] = (kv_key){i, NULL};
        must(kv_array_new(&values[i], KV_FLOAT32, 1, shape, (kv_ctx){KV_GPU, 0}, &e), &e);
        must(kv_init(store, &keys[i], 1, &values[i], NULL, &e), &e);
    }
    if (argc > 2)
        must(kv_set_optimizer(store, argv[2], NULL, 0, &e), &e);
    for (int64_t i = 0; i < 2; i++) {
        must(kv_push(store, keys, n, values, NULL, &e), &e);
        must(kv_wait(store, &e), &e);
    }
    kv_free(store);
    for (int64_t i = 0; i < n; i++)
        kv_array_unref(values[i]);
    mem_free(keys);
    mem_free(values);
    return 0;
}
