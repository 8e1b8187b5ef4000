/* The elements of a part are read where the server's store keeps them. */
#include "distributed/part_changes.h"

#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/store.h"
#include "cpu/changes.h"

struct part_changes {
    int64_t base;  /* the round from which marks count */
    int64_t asked; /* the last round in which a worker asked */
    uint8_t marks[];
};

/* The elements, or NULL where the part is not a default array, in which nothing is compared. */
static const char *elements_of(const server_state *s, const part *p)
{
    const kv_array *a = server_stored(s, p);
    return a->storage == KV_DEFAULT && a->size == p->count ? a->data : NULL;
}

void part_changes_ask(server_state *s, part *p)
{
    kv_err unused = {0};
    if (!p->changes && elements_of(s, p)) {
        p->changes = mem_zalloc(1, sizeof *p->changes + (size_t)p->count, &unused);
        if (p->changes)
            p->changes->base = part_round(p);
    }
    if (p->changes)
        p->changes->asked = part_round(p);
}

bool part_changes_reach(const part *p, int64_t since)
{
    return p->changes && since >= p->changes->base && since <= part_round(p);
}

void part_changes_release(part *p)
{
    mem_free(p->changes);
    p->changes = NULL;
}

/* ---- Rounds ---- */

void part_changes_begin_round(server_state *s, part *p)
{
    kv_err unused = {0};
    const char *elements = p->changes ? elements_of(s, p) : NULL;
    if (!p->changes)
        return;
    if (!elements || mem_grow(&s->copies, &s->copies_cap, s->copied + p->bytes, 1, &unused)) {
        part_changes_release(p);
        return;
    }
    p->copy = s->copied;
    if (p->bytes)
        memcpy(s->copies + p->copy, elements, (size_t)p->bytes);
    s->copied += (p->bytes + 7) / 8 * 8;
}

/* Makes room for the mark of the next round: the older half of the marks is given up. Returns false
 * if nobody has asked for so long that none is needed. */
static bool age(part_changes *c, const part *p)
{
    int64_t by = part_round(p) - c->base - CHANGES_MARKS / 2; /* more, where rounds were given up */
    if (c->asked <= c->base)
        return false;
    changes_age(c->marks, by < CHANGES_MARKS ? (uint8_t)by : CHANGES_MARKS, p->count);
    c->base += by;
    return true;
}

void part_changes_end_round(server_state *s, part *p)
{
    part_changes *c = p->changes;
    const char *elements = c ? elements_of(s, p) : NULL;
    if (!c)
        return;
    if (!elements || (part_round(p) - c->base >= CHANGES_MARKS && !age(c, p))) {
        part_changes_release(p);
        return;
    }
    int64_t mark = part_round(p) + 1 - c->base;
    kv_assert(mark > 0 && mark <= CHANGES_MARKS, "round %lld of part %lld has mark %lld",
              (long long)part_round(p) + 1, (long long)p->id, (long long)mark);
    changes_mark(c->marks, (uint8_t)mark, s->copies + p->copy, elements,
                 (int)kv_dtype_bytes(p->dtype), p->count);
}

void part_changes_forget_copies(server_state *s)
{
    s->copied = 0;
    if (s->copies_cap <= 4 * PART_CHANGES_TOGETHER)
        return;
    mem_free(s->copies);
    s->copies = NULL;
    s->copies_cap = 0;
}

/* ---- Sending ---- */

int64_t part_changes_bound(const part *p, int64_t at)
{
    int64_t left = p->count - at;
    return left * kv_dtype_bytes(p->dtype) + (left / CHANGES_BLOCK + 1) * changes_bound(0, 0);
}

int64_t part_changes_put(const part *p, const void *elements, int64_t since, int64_t *at, void *to,
                         int64_t room)
{
    const part_changes *c = p->changes;
    int size = (int)kv_dtype_bytes(p->dtype);
    int64_t bytes = 0, above = since - c->base;
    kv_assert(part_changes_reach(p, since), "part %lld has no changes since round %lld",
              (long long)p->id, (long long)since);
    above = above < CHANGES_MARKS ? above : CHANGES_MARKS; /* rounds that were given up */
    while (*at < p->count) {
        int64_t n = p->count - *at < CHANGES_BLOCK ? p->count - *at : CHANGES_BLOCK;
        if (changes_bound(size, n) > room - bytes)
            break;
        bytes += changes_encode((char *)to + bytes, c->marks + *at, (uint8_t)above,
                                (const char *)elements + *at * size, size, n);
        *at += n;
    }
    return bytes;
}
