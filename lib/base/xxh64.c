/* Four sums run side by side over words of 8 bytes, each with one multiplication that waits for the
 * one before: 32 bytes a step, so that the memory is the limit. Then the four are folded into one,
 * the last bytes are added, and the bits are mixed. Every step can be undone, so a word that
 * differs alone always changes the result. Words are little-endian. */
#include "base/xxh64.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read as they stand in memory");

/* Odd numbers of the algorithm. */
#define P1 UINT64_C(0x9E3779B185EBCA87)
#define P2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define P3 UINT64_C(0x165667B19E3779F9)
#define P4 UINT64_C(0x85EBCA77C2B2AE63)
#define P5 UINT64_C(0x27D4EB2F165667C5)

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static uint64_t word(const unsigned char *at)
{
    uint64_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

static uint64_t add(uint64_t sum, uint64_t x)
{
    return rotate(sum + x * P2, 31) * P1;
}

static uint64_t fold(uint64_t sum, uint64_t lane)
{
    return (sum ^ add(0, lane)) * P1 + P4;
}

void xxh64_begin(xxh64_parts *p)
{
    *p = (xxh64_parts){.lanes = {P1 + P2, P2, 0, 0 - P1}};
}

void xxh64_add(xxh64_parts *p, const void *data, size_t n)
{
    const unsigned char *at = data, *end = at + n / 32 * 32;
    uint64_t a = p->lanes[0], b = p->lanes[1], c = p->lanes[2], d = p->lanes[3];
    p->n += n / 32 * 32;
    for (; at < end; at += 32) {
        a = add(a, word(at));
        b = add(b, word(at + 8));
        c = add(c, word(at + 16));
        d = add(d, word(at + 24));
    }
    p->lanes[0] = a;
    p->lanes[1] = b;
    p->lanes[2] = c;
    p->lanes[3] = d;
}

static uint64_t fold_lanes(const uint64_t *l)
{
    uint64_t sum = rotate(l[0], 1) + rotate(l[1], 7) + rotate(l[2], 12) + rotate(l[3], 18);
    return fold(fold(fold(fold(sum, l[0]), l[1]), l[2]), l[3]);
}

static uint64_t mix(uint64_t sum)
{
    sum = (sum ^ sum >> 33) * P2;
    sum = (sum ^ sum >> 29) * P3;
    return sum ^ sum >> 32;
}

uint64_t xxh64_end(xxh64_parts *p, const void *last, size_t n)
{
    const unsigned char *at = n ? last : (const void *)"", *end = at + n;
    xxh64_add(p, at, n);
    uint64_t sum = (p->n > 0 ? fold_lanes(p->lanes) : P5) + p->n + n % 32;
    at += n - n % 32;
    for (; end - at >= 8; at += 8)
        sum = rotate(sum ^ add(0, word(at)), 27) * P1 + P4;
    if (end - at >= 4) {
        uint32_t half;
        memcpy(&half, at, sizeof half);
        sum = rotate(sum ^ half * P1, 23) * P2 + P3;
        at += 4;
    }
    for (; at < end; at++)
        sum = rotate(sum ^ *at * P5, 11) * P1;
    return mix(sum);
}

uint64_t xxh64(const void *data, size_t n)
{
    xxh64_parts p;
    xxh64_begin(&p);
    return xxh64_end(&p, data, n);
}
