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

/* Arrays that were made one after the other, which most calls have, mostly lie in memory like that:
 * all are different. */
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

/* Bits by hashes of arrays: those that the arrays of a call have, and those that two pairs have. A
 * pair whose bit no other has needs no look into a map, which for all pairs would take 5 to 8 % of
 * a call of small arrays. */
typedef struct bits {
    uint64_t *some, *again;
    int shift; /* of a hash */
} bits;

static uint64_t bit_of(const bits *b, kv_key memory)
{
    return (uint64_t)memory.id * 0x9E3779B97F4A7C15u >> b->shift;
}

/* To be released by its `some`. */
static int set_bits(bits *b, const kv_pairs *outs, kv_err *e)
{
    int log = 6;
    while (1LL << log < 16 * outs->n)
        log++;
    int64_t words = 1LL << (log - 6);
    *b = (bits){.some = mem_zalloc(2 * words, sizeof *b->some, e), .shift = 64 - log};
    if (!b->some)
        return KV_E_MEMORY;
    b->again = b->some + words;
    for (int64_t i = 0; i < outs->n; i++) {
        uint64_t at = bit_of(b, memory_of(outs, i)), bit = 1ULL << at % 64;
        b->again[at / 64] |= b->some[at / 64] & bit;
        b->some[at / 64] |= bit;
    }
    return KV_OK;
}

static bool may_repeat(const bits *b, kv_key memory)
{
    uint64_t at = bit_of(b, memory);
    return b->again[at / 64] >> at % 64 & 1;
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
    map last = {0}; /* of an array: its last pair */
    bits b;
    *overwritten = NULL;
    if (all_rise_or_fall(outs))
        return KV_OK;
    int rc = set_bits(&b, outs, e);
    for (int64_t i = outs->n - 1; i >= 0 && !rc; i--) {
        kv_key memory = memory_of(outs, i);
        if (!may_repeat(&b, memory))
            continue;
        int64_t later = map_get(&last, memory);
        if (later < 0)
            rc = map_put(&last, memory, i, e);
        else if (numbers[later] != numbers[i])
            rc = mark(overwritten, i, outs->n, e);
    }
    map_release(&last);
    mem_free(b.some);
    return rc;
}
