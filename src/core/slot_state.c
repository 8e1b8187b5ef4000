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
