/* A file of a store: loaded, described, pushed to, saved and loaded again, which must give the same
 * file. The mutator corrects the length of the header; seeds without checksums are not stopped by
 * them. */
#include "fuzz.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "kvstore.h"

static int see(void *arg, const kv_field *f, int n, kv_err *e)
{
    (void)e;
    for (int i = 0; i < n; i++)
        *(int64_t *)arg += (f[i].text ? (int64_t)strlen(f[i].text) : f[i].number) % 7;
    return KV_OK;
}

static void describe(kv *store)
{
    static const char *const topics[] = {"store", "metadata", "rule", "optimizer", "states"};
    int64_t sum = 0;
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        kv_err e = {0};
        fuzz_result(kv_describe(store, topics[i], see, &sum, &e), &e);
    }
}

/* Files hold few bytes, but a row_sparse key of few rows may have any shape. */
enum { MOST_ELEMENTS = 1 << 16 };

static void push_and_pull(kv *store)
{
    for (int64_t i = 0; i < kv_num_keys(store) && i < 20; i++) {
        kv_err e = {0};
        kv_info info;
        kv_array *a = NULL;
        double elements = 1;
        HOLDS(kv_info_at(store, i, &info, &e) == KV_OK, e.text);
        for (int axis = 0; axis < info.ndim; axis++)
            elements *= (double)info.shape[axis];
        if (elements > MOST_ELEMENTS)
            continue;
        HOLDS(kv_array_new(&a, KV_FLOAT32, info.ndim, info.shape, (kv_ctx){0}, &e) == KV_OK,
              e.text);
        kv_key key = info.key;
        HOLDS(kv_pull(store, &key, 1, &a, NULL, &e) == KV_OK, e.text);
        fuzz_result(kv_push(store, &key, 1, &a, NULL, &e), &e);
        kv_array_unref(a);
    }
    kv_err e = {0};
    fuzz_result(kv_wait(store, &e), &e);
}

/* Saves the store and gives the bytes. */
static char *saved(kv *store, size_t *n)
{
    kv_err e = {0};
    char *text = NULL;
    const char *path = fuzz_path("out.kvs");
    HOLDS(kv_save(store, path, &e) == KV_OK, e.text);
    HOLDS(file_read(path, &text, n, &e) == KV_OK, e.text);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    kv_err e = {0};
    kv *store = NULL, *again = NULL;
    if (!fuzz_result(kv_load(&store, fuzz_file("s.kvs", data, n), &e), &e))
        return 0;
    size_t n1, n2;
    char *first = saved(store, &n1);
    HOLDS(kv_load(&again, fuzz_path("out.kvs"), &e) == KV_OK, e.text);
    char *second = saved(again, &n2);
    HOLDS(n1 == n2 && memcmp(first, second, n1) == 0, "the same file again");
    kv_free(again);
    describe(store);
    push_and_pull(store);
    mem_free(first);
    first = saved(store, &n1);
    kv_free(store);
    mem_free(first);
    mem_free(second);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    return fuzz_mutate_header(data, n, max, seed);
}
