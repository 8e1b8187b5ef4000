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

/* Hashes the whole steps of 32 bytes; there is at least one. */
static uint64_t steps(const unsigned char *at, size_t n)
{
    uint64_t a = P1 + P2, b = P2, c = 0, d = 0 - P1;
    for (; n >= 32; at += 32, n -= 32) {
        a = add(a, word(at));
        b = add(b, word(at + 8));
        c = add(c, word(at + 16));
        d = add(d, word(at + 24));
    }
    uint64_t sum = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
    return fold(fold(fold(fold(sum, a), b), c), d);
}

static uint64_t mix(uint64_t sum)
{
    sum = (sum ^ sum >> 33) * P2;
    sum = (sum ^ sum >> 29) * P3;
    return sum ^ sum >> 32;
}

uint64_t xxh64(const void *data, size_t n)
{
    const unsigned char *at = n ? data : (const void *)"", *end = at + n;
    uint64_t sum = (n >= 32 ? steps(at, n) : P5) + n;
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
