/* Marks are written by loops that the compiler makes vector code of. They are read 64 at a time: of
 * these the few that are new become bits, and each bit a place. */
#include "cpu/changes.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <string.h>

#include "base/compiler.h"

enum { FORM_GAPS = 0, FORM_BITS = 1 << 14, FORM_ALL = 2 << 14, FORM = 3 << 14, SKIP = 255 };

/* ---- Marks ---- */

#define MARK(name, type)                                                                           \
    CPU_CLONES static void name(uint8_t *restrict marks, uint8_t mark, const void *before,         \
                                const void *after, int64_t n)                                      \
    {                                                                                              \
        const type *a = before, *b = after;                                                        \
        for (int64_t i = 0; i < n; i++)                                                            \
            marks[i] = a[i] != b[i] ? mark : marks[i];                                             \
    }

MARK(mark_1, uint8_t)
MARK(mark_2, uint16_t)
MARK(mark_4, uint32_t)
MARK(mark_8, uint64_t)

void changes_mark(uint8_t *marks, uint8_t mark, const void *before, const void *after, int size,
                  int64_t n)
{
    if (size == 1)
        mark_1(marks, mark, before, after, n);
    else if (size == 2)
        mark_2(marks, mark, before, after, n);
    else if (size == 4)
        mark_4(marks, mark, before, after, n);
    else
        mark_8(marks, mark, before, after, n);
}

CPU_CLONES void changes_age(uint8_t *marks, uint8_t by, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        marks[i] = marks[i] > by ? (uint8_t)(marks[i] - by) : 0;
}

/* ---- Coding ---- */

/* A bit for each of 64 marks, the first in the lowest bit: whether it is above. */
#ifdef __SSE2__
static uint64_t marks_above(const uint8_t *marks, uint8_t above)
{
    const __m128i limit = _mm_set1_epi8((char)above), zero = _mm_setzero_si128();
    uint64_t bits = 0;
    for (int i = 0; i < 4; i++) {
        __m128i some = _mm_loadu_si128((const __m128i *)(const void *)(marks + 16 * i));
        __m128i over = _mm_cmpeq_epi8(_mm_subs_epu8(some, limit), zero);
        bits |= (uint64_t)(uint16_t)~_mm_movemask_epi8(over) << 16 * i;
    }
    return bits;
}
#else
static uint64_t marks_above(const uint8_t *marks, uint8_t above)
{
    uint64_t bits = 0;
    for (int i = 0; i < 64; i++)
        bits |= (uint64_t)(marks[i] > above) << i;
    return bits;
}
#endif

/* The places of the elements whose mark is above; returns how many. */
static int64_t find_places(uint16_t *at, const uint8_t *marks, uint8_t above, int64_t n)
{
    uint8_t rest[64] = {0};
    int64_t count = 0;
    for (int64_t i = 0; i < n; i += 64) {
        const uint8_t *some = marks + i;
        if (n - i < 64)
            some = memcpy(rest, some, (size_t)(n - i));
        for (uint64_t bits = marks_above(some, above); bits; bits &= bits - 1)
            at[count++] = (uint16_t)(i + __builtin_ctzll(bits));
    }
    return count;
}

/* The bytes of GAPS; returns how many, or `most` where there are as many or more. */
static int64_t put_gaps(uint8_t *to, const uint16_t *at, int64_t count, int64_t most)
{
    int64_t n = 0;
    int next = 0;
    for (int64_t i = 0; i < count; i++) {
        int gap = at[i] - next;
        for (; gap >= SKIP && n < most; gap -= SKIP)
            to[n++] = SKIP;
        if (n >= most)
            return most;
        to[n++] = (uint8_t)gap;
        next = at[i] + 1;
    }
    return n < most ? n : most;
}

/* to[i] = from[at[i]] */
static void gather(void *to, const void *from, const uint16_t *at, int64_t count, int size)
{
    char *out = to;
    const char *in = from;
#define GATHER(bytes)                                                                              \
    for (int64_t i = 0; i < count; i++)                                                            \
        memcpy(out + i * (bytes), in + (int64_t)at[i] * (bytes), bytes)
    if (size == 1)
        GATHER(1);
    else if (size == 2)
        GATHER(2);
    else if (size == 4)
        GATHER(4);
    else
        GATHER(8);
}

static void put_head(char *to, int64_t count, int form)
{
    uint16_t head = (uint16_t)(count | form);
    memcpy(to, &head, sizeof head);
}

int64_t changes_encode(void *to, const uint8_t *marks, uint8_t above, const void *elements,
                       int size, int64_t n)
{
    uint16_t at[CHANGES_BLOCK];
    uint8_t places[CHANGES_BLOCK / 8];
    char *out = to;
    int64_t count = find_places(at, marks, above, n), bits = (n + 7) / 8, head = 2;
    int64_t gaps = put_gaps(places, at, count, bits);
    int form = gaps < bits ? FORM_GAPS : FORM_BITS;
    int64_t bytes = form == FORM_GAPS ? gaps : bits;
    if (bytes + count * size >= n * size) {
        put_head(out, n, FORM_ALL);
        memcpy(out + head, elements, (size_t)(n * size));
        return head + n * size;
    }
    if (form == FORM_BITS) {
        memset(places, 0, (size_t)((n + 7) / 8));
        for (int64_t i = 0; i < count; i++)
            places[at[i] / 8] |= (uint8_t)(1u << at[i] % 8);
    }
    put_head(out, count, form);
    memcpy(out + head, places, (size_t)bytes);
    gather(out + head + bytes, elements, at, count, size);
    return head + bytes + count * size;
}

/* ---- Reading ---- */

/* Returns the address behind the places; NULL: they do not fit. */
static const char *read_gaps(changes_block *out, const char *from, const char *end, int64_t n)
{
    int64_t next = 0;
    for (int64_t i = 0; i < out->count;) {
        if (from == end)
            return NULL;
        uint8_t gap = (uint8_t)*from++;
        next += gap;
        if (gap == SKIP)
            continue;
        if (next >= n)
            return NULL;
        out->at[i++] = (uint16_t)next++;
    }
    return from;
}

static const char *read_bits(changes_block *out, const char *from, const char *end, int64_t n)
{
    int64_t bytes = (n + 7) / 8, count = 0;
    if (end - from < bytes)
        return NULL;
    for (int64_t i = 0; i < bytes; i++)
        for (unsigned left = (uint8_t)from[i]; left; left &= left - 1) {
            int64_t place = 8 * i + __builtin_ctz(left);
            if (place >= n || count == out->count)
                return NULL;
            out->at[count++] = (uint16_t)place;
        }
    return count == out->count ? from + bytes : NULL;
}

const char *changes_decode(changes_block *out, const char *from, const char *end, int size,
                           int64_t n)
{
    uint16_t head;
    if (end - from < (int64_t)sizeof head)
        return NULL;
    memcpy(&head, from, sizeof head);
    from += sizeof head;
    int form = head & FORM;
    out->count = head & ~FORM;
    out->all = form == FORM_ALL;
    if (out->count > n || (out->all && out->count != n))
        return NULL;
    if (form == FORM_GAPS)
        from = read_gaps(out, from, end, n);
    else if (form == FORM_BITS)
        from = read_bits(out, from, end, n);
    else if (form != FORM_ALL)
        return NULL;
    if (!from || end - from < out->count * size)
        return NULL;
    out->elements = from;
    return from + out->count * size;
}

void changes_scatter(void *to, const void *from, const uint16_t *at, int64_t count, int size)
{
    char *out = to;
    const char *in = from;
#define SCATTER(bytes)                                                                             \
    for (int64_t i = 0; i < count; i++)                                                            \
        memcpy(out + (int64_t)at[i] * (bytes), in + i * (bytes), bytes)
    if (size == 1)
        SCATTER(1);
    else if (size == 2)
        SCATTER(2);
    else if (size == 4)
        SCATTER(4);
    else
        SCATTER(8);
}
