/* Words of 8 bytes are compared first: of a fine-tuning most are the same. */
#include "patch/patch_find.h"

#include <string.h>

/* Within a word that differs every unit is put, and counted if it differs: no branch depends on
 * which of them it is. The room behind the last one is used for that. */
#define FIND(name, T)                                                                              \
    static int64_t name(int64_t *at, T *values, const char *a, const char *b, int64_t n,           \
                        int64_t first)                                                             \
    {                                                                                              \
        enum { IN_WORD = 8 / sizeof(T), BITS = 8 * sizeof(T) };                                    \
        int64_t found = 0, i = 0;                                                                  \
        for (; i + IN_WORD <= n; i += IN_WORD) {                                                   \
            uint64_t x, y;                                                                         \
            memcpy(&x, a + i * (int64_t)sizeof(T), sizeof x);                                      \
            memcpy(&y, b + i * (int64_t)sizeof(T), sizeof y);                                      \
            if (x == y)                                                                            \
                continue;                                                                          \
            x ^= y;                                                                                \
            for (int j = 0; j < IN_WORD; j++) {                                                    \
                at[found] = first + i + j;                                                         \
                values[found] = (T)(y >> (j * BITS % 64));                                         \
                found += (T)(x >> (j * BITS % 64)) != 0;                                           \
            }                                                                                      \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            T x, y;                                                                                \
            memcpy(&x, a + i * (int64_t)sizeof(T), sizeof x);                                      \
            memcpy(&y, b + i * (int64_t)sizeof(T), sizeof y);                                      \
            at[found] = first + i;                                                                 \
            values[found] = y;                                                                     \
            found += x != y;                                                                       \
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
