/* Sharing and giving back. */
#include "core/residuals.h"

#include "base/mem.h"

int residuals_share(residuals **out, const residuals *r, kv_err *e)
{
    *out = NULL;
    if (!r || r->n == 0)
        return KV_OK;
    residuals *copy = mem_zalloc(1, sizeof *copy, e);
    if (!copy)
        return KV_E_MEMORY;
    if (mem_grow(&copy->items, &copy->cap, r->n, sizeof *copy->items, e)) {
        mem_free(copy);
        return KV_E_MEMORY;
    }
    for (; copy->n < r->n; copy->n++)
        copy->items[copy->n] = kv_array_ref(r->items[copy->n]);
    *out = copy;
    return KV_OK;
}

void residuals_free(residuals *r)
{
    if (!r)
        return;
    for (int64_t i = 0; i < r->n; i++)
        kv_array_unref(r->items[i]);
    mem_free(r->items);
    kv_array_unref(r->sum);
    mem_free(r);
}
