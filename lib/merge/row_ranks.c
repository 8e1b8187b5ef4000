/* Radix sort of keys that have the order of the terms, digit by digit from the lowest, which keeps
 * equal ones in their order. Digits that are equal in all keys are left out. Short rows are sorted
 * by insertion, since clearing the counts would take longer. */
#include "merge/row_ranks.h"

#include <string.h>

enum { DIGIT = 11, DIGITS = 1 << DIGIT, SHORT = 48 };

typedef struct item {
    uint64_t key;
    int64_t at; /* of the term in its row */
} item;

int64_t row_ranks_bytes(int64_t n)
{
    return 2 * n * (int64_t)sizeof(item);
}

static uint64_t key_of(const void *terms, bool wide, int64_t i)
{
    if (wide) {
        double y = ((const double *)terms)[i] + 0;
        uint64_t u;
        memcpy(&u, &y, sizeof u);
        return y != y ? UINT64_MAX : u ^ (u >> 63 ? UINT64_MAX : (uint64_t)1 << 63);
    }
    float y = ((const float *)terms)[i] + 0;
    uint32_t u;
    memcpy(&u, &y, sizeof u);
    return y != y ? UINT32_MAX : u ^ (u >> 31 ? UINT32_MAX : (uint32_t)1 << 31);
}

static void insert_each(item *x, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        item one = x[i];
        int64_t k = i;
        for (; k > 0 && x[k - 1].key > one.key; k--)
            x[k] = x[k - 1];
        x[k] = one;
    }
}

/* Returns which of the two arrays holds the result. */
static item *sort(item *x, item *other, int64_t n, bool wide)
{
    for (int shift = 0; shift < (wide ? 64 : 32); shift += DIGIT) {
        int64_t count[DIGITS] = {0}, at = 0;
        for (int64_t i = 0; i < n; i++)
            count[x[i].key >> shift & (DIGITS - 1)]++;
        if (count[x[0].key >> shift & (DIGITS - 1)] == n)
            continue;
        for (int d = 0; d < DIGITS; d++) {
            int64_t c = count[d];
            count[d] = at;
            at += c;
        }
        for (int64_t i = 0; i < n; i++)
            other[count[x[i].key >> shift & (DIGITS - 1)]++] = x[i];
        item *swap = x;
        x = other;
        other = swap;
    }
    return x;
}

void row_ranks(void *rank, const void *terms, bool wide, int64_t n, void *scratch)
{
    item *x = scratch;
    for (int64_t i = 0; i < n; i++)
        x[i] = (item){key_of(terms, wide, i), i};
    if (n <= SHORT)
        insert_each(x, n);
    else
        x = sort(x, x + n, n, wide);
    double last = (double)(n - 1);
    for (int64_t i = 0; i < n; i++) {
        double r = n == 1 ? 0.5 : (double)i / last;
        if (wide)
            ((double *)rank)[x[i].at] = r;
        else
            ((float *)rank)[x[i].at] = (float)r;
    }
}
