/* A part of a row is added up in a few columns at a time, which stay in the L1 cache, four terms
 * each time they are loaded. */
#include "merge/merge_product.h"

#include <string.h>

#include "base/compiler.h"

enum { COLUMNS = 512, TERMS = 4 };

#define LOOPS(suffix, T)                                                                           \
    CPU_CLONES static void part_##suffix(T *restrict out, const T *restrict a,                     \
                                         const T *restrict b, int64_t rank, int64_t columns,       \
                                         int64_t n)                                                \
    {                                                                                              \
        double sum[COLUMNS];                                                                       \
        int64_t k = 0;                                                                             \
        for (int64_t j = 0; j < n; j++)                                                            \
            sum[j] = 0;                                                                            \
        for (; k + TERMS <= rank; k += TERMS) {                                                    \
            const T *a0 = a + k * columns, *a1 = a0 + columns, *a2 = a1 + columns,                 \
                    *a3 = a2 + columns;                                                            \
            double b0 = b[k], b1 = b[k + 1], b2 = b[k + 2], b3 = b[k + 3];                         \
            for (int64_t j = 0; j < n; j++)                                                        \
                sum[j] = (((sum[j] + b0 * a0[j]) + b1 * a1[j]) + b2 * a2[j]) + b3 * a3[j];         \
        }                                                                                          \
        for (; k < rank; k++)                                                                      \
            for (int64_t j = 0; j < n; j++)                                                        \
                sum[j] += (double)b[k] * a[k * columns + j];                                       \
        for (int64_t j = 0; j < n; j++)                                                            \
            out[j] = (T)sum[j];                                                                    \
    }

LOOPS(f32, float)
LOOPS(f64, double)

void merge_product_part(void *out, const merge_product *p, int64_t from, int64_t n)
{
    while (n > 0) {
        int64_t row = from / p->columns, column = from % p->columns, k = p->columns - column;
        k = k < n ? k : n;
        k = k < COLUMNS ? k : COLUMNS;
        if (p->wide)
            part_f64(out, (const double *)p->a + column, (const double *)p->b + row * p->rank,
                     p->rank, p->columns, k);
        else
            part_f32(out, (const float *)p->a + column, (const float *)p->b + row * p->rank,
                     p->rank, p->columns, k);
        out = (char *)out + k * (p->wide ? 8 : 4);
        from += k;
        n -= k;
    }
}
