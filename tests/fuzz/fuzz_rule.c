/* The text of a rule: read, set on a store of two keys, whose dtype and storage the first byte
 * draws, used by three pushes, and described. */
#include "fuzz.h"

#include <string.h>

#include "base/mem.h"
#include "kvstore.h"

static kv_array *new_array(kv_dtype dtype, int64_t rows, double from)
{
    kv_err e = {0};
    kv_array *wide = NULL, *a = NULL;
    void *data = NULL;
    int64_t shape[] = {rows, 2};
    HOLDS(kv_array_new(&wide, KV_FLOAT64, 2, shape, (kv_ctx){0}, &e) == KV_OK, e.text);
    HOLDS(kv_array_write(wide, &data, &e) == KV_OK, e.text);
    for (int64_t i = 0; i < 2 * rows; i++)
        ((double *)data)[i] = from + (double)(i % 5);
    HOLDS(kv_array_dup(&a, wide, dtype, (kv_ctx){0}, &e) == KV_OK, e.text);
    kv_array_unref(wide);
    return a;
}

static kv_array *as_sparse(kv_array *dense, bool sparse)
{
    kv_err e = {0};
    kv_array *rows = NULL;
    if (!sparse)
        return dense;
    HOLDS(kv_array_to_sparse(&rows, dense, &e) == KV_OK, e.text);
    kv_array_unref(dense);
    return rows;
}

static int64_t fields;

static int see(void *arg, const kv_field *f, int n, kv_err *e)
{
    (void)arg, (void)e;
    for (int i = 0; i < n; i++)
        fields += f[i].name[0];
    return KV_OK;
}

static void use_rule(const kv_rule *rule, unsigned kind)
{
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_FLOAT16, KV_BFLOAT16, KV_INT32};
    static const kv_key keys[] = {{.id = 3}, {.id = 5}};
    static const kv_opt given[] = {{"a", "0.5"}};
    kv_dtype dtype = dtypes[kind % 5];
    kv_err e = {0};
    kv *store = NULL;
    kv_array *values[2], *outs[2];
    HOLDS(kv_create("local", NULL, 0, &store, &e) == KV_OK, e.text);
    for (int i = 0; i < 2; i++) {
        values[i] = as_sparse(new_array(dtype, 4 + i, i), i == 1 && kind / 5 % 2);
        HOLDS(kv_init(store, &keys[i], 1, &values[i], NULL, &e) == KV_OK, e.text);
        kv_array_unref(values[i]);
        values[i] = as_sparse(new_array(dtype, 4 + i, 2), kind / 10 % 2);
        outs[i] = new_array(KV_FLOAT32, 4 + i, 0);
    }
    bool set = fuzz_result(kv_set_rule(store, rule, given, 1, &e), &e);
    e = (kv_err){0};
    if (!set)
        set = fuzz_result(kv_set_rule(store, rule, NULL, 0, &e), &e);
    for (int t = 0; t < 3 && set; t++) {
        e = (kv_err){0};
        fuzz_result(kv_push(store, keys, 2, values, NULL, &e), &e);
        e = (kv_err){0};
        HOLDS(kv_pull(store, keys, 2, outs, NULL, &e) == KV_OK, e.text);
        HOLDS(kv_wait(store, &e) == KV_OK, e.text);
    }
    if (set) {
        HOLDS(kv_describe(store, "rule", see, NULL, &e) == KV_OK, e.text);
        HOLDS(kv_describe(store, "states", see, NULL, &e) == KV_OK, e.text);
    }
    for (int i = 0; i < 2; i++) {
        kv_array_unref(values[i]);
        kv_array_unref(outs[i]);
    }
    kv_free(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_bytes in = {data, data + n};
    unsigned kind = fuzz_draw(&in, 256);
    kv_err e = {0};
    kv_rule *rule = NULL;
    char *text = mem_text((const char *)in.at, (size_t)(in.end - in.at), &e);
    HOLDS(text != NULL, e.text);
    if (fuzz_result(kv_rule_new(&rule, text, "r.kv", 1, 1, &e), &e))
        use_rule(rule, kind);
    kv_rule_free(rule);
    mem_free(text);
    return 0;
}
