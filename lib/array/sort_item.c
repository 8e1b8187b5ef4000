/* Items are sorted by the bytes of their keys, the lowest first: a pass counts, and a pass for each
 * byte brings the items into their order, which takes no comparisons. Bytes that are the same in
 * all items are left out. Short runs are sorted by insertion.
 *
 * A key is the element as an unsigned number of the same order: an integer with its sign turned, a
 * float whose bits are turned when it is negative; nan is the largest. Where indices are sorted 0
 * and -0 are one key. A key of 32 bits and an index share 64 bits, so the key is their upper half.
 */
#include "array/sort_item.h"

#include <string.h>

enum { SHORT = 48 };

typedef struct pair {
    uint64_t key, index;
} pair;

/* ---- Keys ---- */

static inline uint32_t key_i32(int32_t x)
{
    return (uint32_t)x ^ 0x80000000u;
}

static inline uint64_t key_i64(int64_t x)
{
    return (uint64_t)x ^ 0x8000000000000000u;
}

static inline uint32_t key_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? UINT32_MAX : bits ^ ((0 - (bits >> 31)) | 0x80000000u);
}

static inline uint64_t key_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? UINT64_MAX : bits ^ ((0 - (bits >> 63)) | 0x8000000000000000u);
}

static inline int32_t back_i32(uint32_t key)
{
    return (int32_t)(key ^ 0x80000000u);
}

static inline int64_t back_i64(uint64_t key)
{
    return (int64_t)(key ^ 0x8000000000000000u);
}

static inline float back_f32(uint32_t key)
{
    float x;
    key ^= ((key >> 31) - 1) | 0x80000000u;
    memcpy(&x, &key, sizeof x);
    return x;
}

static inline double back_f64(uint64_t key)
{
    double x;
    key ^= ((key >> 63) - 1) | 0x8000000000000000u;
    memcpy(&x, &key, sizeof x);
    return x;
}

/* ---- Sorting and merging ---- */

#define ITSELF(x)  (x)
#define UPPER(x)   ((x) >> 32)
#define OF_PAIR(x) ((x).key)

/* BYTES of a key, which KEY gives. */
#define SORT(name, T, KEY, BYTES)                                                                  \
    static void name##_insert(T *x, int64_t n)                                                     \
    {                                                                                              \
        for (int64_t i = 1; i < n; i++) {                                                          \
            T one = x[i];                                                                          \
            int64_t k = i;                                                                         \
            for (; k > 0 && KEY(one) < KEY(x[k - 1]); k--)                                         \
                x[k] = x[k - 1];                                                                   \
            x[k] = one;                                                                            \
        }                                                                                          \
    }                                                                                              \
    static void name##_sort(void *items, void *room, int64_t n)                                    \
    {                                                                                              \
        T *x = items, *y = room;                                                                   \
        int64_t count[BYTES][256];                                                                 \
        if (n <= SHORT) {                                                                          \
            name##_insert(x, n);                                                                   \
            return;                                                                                \
        }                                                                                          \
        memset(count, 0, sizeof count);                                                            \
        for (int64_t i = 0; i < n; i++)                                                            \
            for (int b = 0; b < BYTES; b++)                                                        \
                count[b][KEY(x[i]) >> (8 * b) & 255]++;                                            \
        for (int b = 0; b < BYTES; b++) {                                                          \
            if (count[b][KEY(x[0]) >> (8 * b) & 255] == n)                                         \
                continue;                                                                          \
            int64_t *to = count[b], sum = 0;                                                       \
            for (int k = 0; k < 256; k++) {                                                        \
                int64_t here = to[k];                                                              \
                to[k] = sum;                                                                       \
                sum += here;                                                                       \
            }                                                                                      \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[to[KEY(x[i]) >> (8 * b) & 255]++] = x[i];                                        \
            T *swap = x;                                                                           \
            x = y;                                                                                 \
            y = swap;                                                                              \
        }                                                                                          \
        if (x != items)                                                                            \
            memcpy(items, x, (size_t)n * sizeof *x);                                               \
    }                                                                                              \
    static void name##_merge(void *to, const void *left, int64_t na, const void *right,            \
                             int64_t nb, int64_t from, int64_t n)                                  \
    {                                                                                              \
        const T *a = left, *b = right;                                                             \
        T *d = to;                                                                                 \
        int64_t low = from > nb ? from - nb : 0, high = from < na ? from : na;                     \
        while (low < high) { /* how many of the first `from` are of a */                           \
            int64_t i = low + (high - low) / 2;                                                    \
            if (KEY(b[from - i - 1]) < KEY(a[i]))                                                  \
                high = i;                                                                          \
            else                                                                                   \
                low = i + 1;                                                                       \
        }                                                                                          \
        int64_t i = low, k = from - low;                                                           \
        while (n > 0 && i < na && k < nb) {                                                        \
            bool second = KEY(b[k]) < KEY(a[i]);                                                   \
            *d++ = second ? b[k] : a[i];                                                           \
            k += second;                                                                           \
            i += !second;                                                                          \
            n--;                                                                                   \
        }                                                                                          \
        memcpy(d, i < na ? a + i : b + k, (size_t)n * sizeof *d);                                  \
    }

SORT(u32, uint32_t, ITSELF, 4)
SORT(u64, uint64_t, ITSELF, 8)
SORT(upper, uint64_t, UPPER, 4)
SORT(pair, pair, OF_PAIR, 8)

/* ---- Elements to items, and back ---- */

#define VALUES(name, E, U)                                                                         \
    static void name##_values(void *items, const void *from, int64_t n, int64_t at, bool down)     \
    {                                                                                              \
        const E *x = from;                                                                         \
        U *item = items, turn = down ? (U)-1 : 0;                                                  \
        for (int64_t i = 0; i < n; i++)                                                            \
            item[i] = key_##name(x[i]) ^ turn;                                                     \
        (void)at;                                                                                  \
    }                                                                                              \
    static void name##_give(void *to, const void *items, int64_t n, bool down)                     \
    {                                                                                              \
        E *x = to;                                                                                 \
        const U *item = items;                                                                     \
        U turn = down ? (U)-1 : 0;                                                                 \
        for (int64_t i = 0; i < n; i++)                                                            \
            x[i] = back_##name(item[i] ^ turn);                                                    \
    }

VALUES(f32, float, uint32_t)
VALUES(i32, int32_t, uint32_t)
VALUES(f64, double, uint64_t)
VALUES(i64, int64_t, uint64_t)

/* + 0 makes 0 of -0. */
#define UPPERS(name, E)                                                                            \
    static void name##_indices(void *items, const void *from, int64_t n, int64_t at, bool down)    \
    {                                                                                              \
        const E *x = from;                                                                         \
        uint64_t *item = items;                                                                    \
        uint32_t turn = down ? UINT32_MAX : 0;                                                     \
        for (int64_t i = 0; i < n; i++)                                                            \
            item[i] = (uint64_t)(key_##name(x[i] + 0) ^ turn) << 32 | (uint64_t)(at + i);          \
    }

UPPERS(f32, float)
UPPERS(i32, int32_t)

#define PAIRS(name, E)                                                                             \
    static void name##_indices(void *items, const void *from, int64_t n, int64_t at, bool down)    \
    {                                                                                              \
        const E *x = from;                                                                         \
        pair *item = items;                                                                        \
        uint64_t turn = down ? UINT64_MAX : 0;                                                     \
        for (int64_t i = 0; i < n; i++)                                                            \
            item[i] = (pair){key_##name(x[i] + 0) ^ turn, (uint64_t)(at + i)};                     \
    }

PAIRS(f64, double)
PAIRS(i64, int64_t)

static void give_uppers(void *to, const void *items, int64_t n, bool down)
{
    int64_t *x = to;
    const uint64_t *item = items;
    (void)down;
    for (int64_t i = 0; i < n; i++)
        x[i] = (int64_t)(item[i] & UINT32_MAX);
}

static void give_pairs(void *to, const void *items, int64_t n, bool down)
{
    int64_t *x = to;
    const pair *item = items;
    (void)down;
    for (int64_t i = 0; i < n; i++)
        x[i] = (int64_t)item[i].index;
}

/* ---- The choice ---- */

kv_dtype sort_dtype(kv_dtype dtype)
{
    if (dtype == KV_FLOAT64 || dtype == KV_INT64)
        return dtype;
    return kv_dtype_is_float(dtype) ? KV_FLOAT32 : KV_INT32;
}

const sort_items *sort_items_of(kv_dtype dtype, bool indices)
{
    static const sort_items values[] = {
        {4, f32_values, u32_sort, u32_merge, f32_give},
        {8, f64_values, u64_sort, u64_merge, f64_give},
        {4, i32_values, u32_sort, u32_merge, i32_give},
        {8, i64_values, u64_sort, u64_merge, i64_give},
    };
    static const sort_items with_indices[] = {
        {8, f32_indices, upper_sort, upper_merge, give_uppers},
        {16, f64_indices, pair_sort, pair_merge, give_pairs},
        {8, i32_indices, upper_sort, upper_merge, give_uppers},
        {16, i64_indices, pair_sort, pair_merge, give_pairs},
    };
    int i = (dtype == KV_INT32 || dtype == KV_INT64 ? 2 : 0) +
            (dtype == KV_FLOAT64 || dtype == KV_INT64);
    return indices ? &with_indices[i] : &values[i];
}
