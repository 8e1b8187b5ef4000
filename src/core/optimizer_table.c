/* Tables of multipliers and of names. */
#include "core/optimizer_table.h"

#include <math.h>
#include <string.h>

#include "base/num.h"

int optimizer_table_put(optimizer_table *t, const char *key, const char *text, double number,
                        kv_err *e)
{
    int64_t at = map_get(&t->index, (kv_key){0, key});
    if (at < 0) {
        if (map_put(&t->index, (kv_key){0, key}, t->n, e))
            return KV_E_MEMORY;
        at = t->n++;
    }
    t->keys[at] = key;
    t->texts[at] = text;
    t->numbers[at] = number;
    return KV_OK;
}

int optimizer_table_reserve(optimizer_table *t, int64_t n, arena *a, kv_err *e)
{
    t->keys = arena_alloc(a, (size_t)n * sizeof *t->keys, e);
    t->texts = arena_alloc(a, (size_t)n * sizeof *t->texts, e);
    t->numbers = arena_alloc(a, (size_t)n * sizeof *t->numbers, e);
    return t->keys && t->texts && t->numbers ? KV_OK : KV_E_MEMORY;
}

static int64_t count_pairs(const char *text)
{
    int64_t n = *text != '\0';
    for (; *text; text++)
        n += *text == ',';
    return n;
}

int64_t optimizer_table_find(const optimizer_table *t, const char *key)
{
    return key && t->n > 0 ? map_get(&t->index, (kv_key){0, key}) : -1;
}

int optimizer_table_read(optimizer_table *t, const char *what, const char *text, bool numbers,
                         arena *a, kv_err *e)
{
    if (optimizer_table_reserve(t, count_pairs(text) + 64, a, e))
        return KV_E_MEMORY;
    while (*text) {
        size_t n = strcspn(text, ","), at = strcspn(text, "=");
        double x = 0;
        if (at >= n || (!numbers && at + 1 == n))
            return kv_err_set(e, KV_E_VALUE, "%s takes pairs such as 0=%s, not \"%.*s\"", what,
                              numbers ? "0.5" : "fc_weight", (int)n, text);
        const char *value = text + at + 1;
        size_t m = n - at - 1;
        if (numbers && (m == 0 || num_parse(value, m, NUM_BINARY64, &x, NULL) != m || isnan(x)))
            return kv_err_set(e, KV_E_VALUE, "%s: \"%.*s\" is not a number", what, (int)m, value);
        const char *key = arena_text(a, text, at, e),
                   *name = key ? arena_text(a, value, m, e) : NULL;
        if (!name)
            return KV_E_MEMORY;
        if (optimizer_table_find(t, key) >= 0)
            return kv_err_set(e, KV_E_VALUE, "%s: the key %.80s is given twice", what, key);
        if (optimizer_table_put(t, key, name, x, e))
            return KV_E_MEMORY;
        text += n + (text[n] == ',');
    }
    return KV_OK;
}

void optimizer_table_release(optimizer_table *t)
{
    map_release(&t->index);
}
