/* Outs that stand in several pairs of a call. The replies come in any order, so such an out is
 * written by the key of its last pair alone. */
#include "array/device.h"
#include "base/map.h"
#include "base/mem.h"
#include "distributed/request.h"

/* Views share the memory and the variable of their base. */
static kv_key memory_of(const kv_pairs *outs, int64_t i)
{
    return (kv_key){.id = (int64_t)(uintptr_t)array_var(outs->arrays[i])};
}

/* Arrays that were made one after the other, which most calls have, mostly lie in memory like that.
 * They are told apart without a map. */
static bool all_rise_or_fall(const kv_pairs *outs)
{
    bool rise = true, fall = true;
    for (int64_t i = 1; i < outs->n && (rise || fall); i++) {
        int64_t before = memory_of(outs, i - 1).id, here = memory_of(outs, i).id;
        rise &= before < here;
        fall &= before > here;
    }
    return rise || fall;
}

static int mark(bool **overwritten, int64_t i, int64_t n, kv_err *e)
{
    if (!*overwritten && !(*overwritten = mem_zalloc(n, sizeof **overwritten, e)))
        return KV_E_MEMORY;
    (*overwritten)[i] = true;
    return KV_OK;
}

int request_find_overwritten(const int64_t *numbers, const kv_pairs *outs, bool **overwritten,
                             kv_err *e)
{
    map last = {0}; /* of each array: its last pair */
    *overwritten = NULL;
    if (all_rise_or_fall(outs))
        return KV_OK;
    int rc = map_reserve(&last, outs->n, e);
    for (int64_t i = outs->n - 1; i >= 0 && !rc; i--) {
        kv_key memory = memory_of(outs, i);
        int64_t later = map_get(&last, memory);
        if (later < 0)
            rc = map_put(&last, memory, i, e);
        else if (numbers[later] != numbers[i])
            rc = mark(overwritten, i, outs->n, e);
    }
    map_release(&last);
    return rc;
}
