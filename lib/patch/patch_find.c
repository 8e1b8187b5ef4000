/* Words of 8 bytes are compared, 64 of them at a time, since of a fine-tuning most are the same. A
 * bit tells of each whether it differs: so one jump in 64 words is not foreseen, and not one at
 * each word that differs. */
#include "patch/patch_find.h"

#include <string.h>

#include "base/compiler.h"

#define WORDS 64

typedef int64_t word_8 __attribute__((vector_size(64)));
typedef int64_t any_word_8 __attribute__((vector_size(64), aligned(1), may_alias));
typedef int8_t byte_8 __attribute__((vector_size(8)));

/* Bit i: word i of a and b differs. */
static inline __attribute__((always_inline)) uint64_t differ(const char *a, const char *b)
{
    uint64_t all = 0;
    for (int i = 0; i < WORDS; i += 8) {
        word_8 x = *(const any_word_8 *)(const void *)(a + 8 * i);
        word_8 y = *(const any_word_8 *)(const void *)(b + 8 * i);
        byte_8 bytes = __builtin_convertvector(x != y, byte_8);
        uint64_t eight;
        memcpy(&eight, &bytes, sizeof eight);
        /* the lowest bit of byte k becomes bit 56 + k */
        eight = (eight & UINT64_C(0x0101010101010101)) * UINT64_C(0x0102040810204080) >> 56;
        all |= eight << i;
    }
    return all;
}

/* The units of two words of which some differ: x is what they differ by, y are those of b. */
#define PUT_WORD(T, place)                                                                         \
    do {                                                                                           \
        const int bits = 8 * sizeof(T);                                                            \
        while (x) {                                                                                \
            int lane = __builtin_ctzll(x) / bits;                                                  \
            at[found] = (place) + lane;                                                            \
            values[found++] = (T)(y >> (lane * bits));                                             \
            x &= ~((uint64_t)(T)~(T)0 << (lane * bits));                                           \
        }                                                                                          \
    } while (0)

#define FIND(name, T)                                                                              \
    CPU_CLONES static int64_t name(int64_t *at, T *values, const char *a, const char *b,           \
                                   int64_t n, int64_t first)                                       \
    {                                                                                              \
        enum { IN_WORD = 8 / sizeof(T) };                                                          \
        int64_t found = 0, i = 0, size = sizeof(T);                                                \
        for (; i + WORDS * IN_WORD <= n; i += WORDS * IN_WORD) {                                   \
            for (uint64_t left = differ(a + i * size, b + i * size); left; left &= left - 1) {     \
                int64_t place = i + __builtin_ctzll(left) * IN_WORD;                               \
                uint64_t x, y;                                                                     \
                memcpy(&x, a + place * size, sizeof x);                                            \
                memcpy(&y, b + place * size, sizeof y);                                            \
                x ^= y;                                                                            \
                PUT_WORD(T, first + place);                                                        \
            }                                                                                      \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            T x, y;                                                                                \
            memcpy(&x, a + i * size, sizeof x);                                                    \
            memcpy(&y, b + i * size, sizeof y);                                                    \
            if (x != y) {                                                                          \
                at[found] = first + i;                                                             \
                values[found++] = y;                                                               \
            }                                                                                      \
        }                                                                                          \
        return found;                                                                              \
    }

FIND(find_8, uint8_t)
FIND(find_16, uint16_t)
FIND(find_32, uint32_t)
FIND(find_64, uint64_t)

int64_t patch_find(int64_t *at, void *values, const void *a, const void *b, int64_t n, int unit,
                   int64_t first)
{
    switch (unit) {
    case 1:
        return find_8(at, values, a, b, n, first);
    case 2:
        return find_16(at, values, a, b, n, first);
    case 4:
        return find_32(at, values, a, b, n, first);
    }
    return find_64(at, values, a, b, n, first);
}
