/* A file of save-states: loaded into a store with the optimizer that it names, which then takes a
 * push. The mutator corrects the length of the header. */
#include "fuzz.h"

#include <string.h>

#include "kvstore.h"

static kv_array *zeros(int64_t rows)
{
    kv_err e = {0};
    kv_array *a = NULL;
    HOLDS(kv_array_new(&a, KV_FLOAT32, 2, (int64_t[]){rows, 2}, (kv_ctx){0}, &e) == KV_OK, e.text);
    return a;
}

/* Sets what a file of it could have been saved with. */
static void set_optimizer(kv *store, const uint8_t *data, size_t n)
{
    static const char kinds[] = "updater kinds {\n  state m = stored * 0.5\n  state row h\n"
                                "  state key n = 0, f = 0.1, b = false, z = none\n"
                                "  state shared total = 0.25\n"
                                "  n += 1; f = f * 1.1 + n; b = not b; total += f / 7\n"
                                "  m = 0.9 * m + input * f\n  h += rowmean(input * input)\n"
                                "  stored += m / (sqrt(h) + total)\n}";
    static const char *const names[] = {"adam", "ftrl", "lamb", "lbsgd", "dcasgd", "nadam"};
    static const kv_opt momentum[] = {{"momentum", "0.9"}};
    kv_err e = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (memmem(data, n, names[i], strlen(names[i]))) {
            HOLDS(kv_set_optimizer(store, names[i], NULL, 0, &e) == KV_OK, e.text);
            return;
        }
    if (!memmem(data, n, "kinds", 5)) {
        HOLDS(kv_set_optimizer(store, "sgd", momentum, 1, &e) == KV_OK, e.text);
        return;
    }
    kv_rule *rule = NULL;
    HOLDS(kv_rule_new(&rule, kinds, NULL, 0, 0, &e) == KV_OK, e.text);
    HOLDS(kv_set_rule(store, rule, NULL, 0, &e) == KV_OK, e.text);
    kv_rule_free(rule);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const kv_key keys[] = {{.id = 3}, {.id = 5}};
    kv_err e = {0};
    kv *store = NULL;
    kv_array *values[] = {zeros(2), zeros(3)};
    HOLDS(kv_create("local", NULL, 0, &store, &e) == KV_OK, e.text);
    HOLDS(kv_init(store, keys, 2, values, NULL, &e) == KV_OK, e.text);
    set_optimizer(store, data, n);
    bool loaded = fuzz_result(kv_load_states(store, fuzz_file("t", data, n), &e), &e);
    e = (kv_err){0};
    if (loaded) {
        HOLDS(kv_save_states(store, fuzz_path("out"), 0, &e) == KV_OK, e.text);
        HOLDS(kv_load_states(store, fuzz_path("out"), &e) == KV_OK, e.text);
    }
    fuzz_result(kv_push(store, keys, 2, values, NULL, &e), &e);
    for (int i = 0; i < 2; i++)
        kv_array_unref(values[i]);
    kv_free(store);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    return fuzz_mutate_header(data, n, max, seed);
}
