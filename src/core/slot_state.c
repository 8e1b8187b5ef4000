/* Sharing and giving back. */
#include "core/slot_state.h"

#include "base/mem.h"

int slot_state_share(slot_state **out, const slot_state *s, kv_err *e)
{
    *out = NULL;
    if (!s)
        return KV_OK;
    slot_state *copy = mem_alloc(1, sizeof *copy, e);
    if (!copy)
        return KV_E_MEMORY;
    *copy = *s;
    kv_array_ref(copy->master);
    for (int i = 0; i < PLAN_MAX_STATES; i++)
        kv_array_ref(copy->arrays[i]);
    *out = copy;
    return KV_OK;
}

void slot_state_free(slot_state *s)
{
    if (!s)
        return;
    kv_array_unref(s->master);
    for (int i = 0; i < PLAN_MAX_STATES; i++)
        kv_array_unref(s->arrays[i]);
    mem_free(s);
}

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

int residuals_place(residuals **r, int64_t at, kv_array ***to, kv_err *e)
{
    if (!*r && !(*r = mem_zalloc(1, sizeof **r, e)))
        return KV_E_MEMORY;
    residuals *all = *r;
    int rc = mem_grow(&all->items, &all->cap, at + 1, sizeof *all->items, e);
    while (!rc && all->n <= at)
        all->items[all->n++] = NULL;
    if (!rc)
        *to = &all->items[at];
    return rc;
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
