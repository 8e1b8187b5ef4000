/* One loop, compiled for vectors of 16, 32 and 64 bytes. A line of DOT_LINE bytes is one to four of
 * them, so that the sums of DOT_ROWS lines fit the registers of AVX2 and of AVX-512. */
#include "array/dot_kernel.h"

#include <stdbool.h>
#include <stddef.h>

/* VECTOR: bytes of a vector register. Vectors may lie anywhere. */
#define KERNEL(name, T, VECTOR, TARGET)                                                            \
    TARGET static void name(void *sums, int64_t stride, const void *left, const void *right,       \
                            int64_t depth)                                                         \
    {                                                                                              \
        typedef T vec __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias));         \
        enum { LENGTH = VECTOR / sizeof(T), VECTORS = DOT_LINE / VECTOR };                         \
        const T *a = left, *b = right;                                                             \
        T *c = sums;                                                                               \
        vec sum[DOT_ROWS][VECTORS];                                                                \
        for (int r = 0; r < DOT_ROWS; r++)                                                         \
            for (int v = 0; v < VECTORS; v++)                                                      \
                sum[r][v] = *(vec *)(c + r * stride + v * LENGTH);                                 \
        for (int64_t k = 0; k < depth; k++) {                                                      \
            for (int v = 0; v < VECTORS; v++) {                                                    \
                const vec y = *(const vec *)(b + v * LENGTH);                                      \
                for (int r = 0; r < DOT_ROWS; r++)                                                 \
                    sum[r][v] += a[r] * y;                                                         \
            }                                                                                      \
            a += DOT_ROWS;                                                                         \
            b += DOT_LINE / sizeof(T);                                                             \
        }                                                                                          \
        for (int r = 0; r < DOT_ROWS; r++)                                                         \
            for (int v = 0; v < VECTORS; v++)                                                      \
                *(vec *)(c + r * stride + v * LENGTH) = sum[r][v];                                 \
    }

/* uint64_t for integers, because it wraps. */
#define TABLE(table, VECTOR, TARGET)                                                               \
    KERNEL(table##_f32, float, VECTOR, TARGET)                                                     \
    KERNEL(table##_f64, double, VECTOR, TARGET)                                                    \
    KERNEL(table##_i64, uint64_t, VECTOR, TARGET)                                                  \
    static const dot_kernels table = {#table, table##_f32, table##_f64, table##_i64};

#define ANY
TABLE(plain, 16, ANY)

#if defined(__x86_64__) && defined(__GNUC__)
TABLE(avx2, 32, __attribute__((target("avx2"))))
TABLE(avx512, 64, __attribute__((target("avx512f,avx512dq"))))

const dot_kernels *dot_kernel_tables(int i)
{
    bool has_avx2 = __builtin_cpu_supports("avx2");
    bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512dq");
    if (i == 0)
        return &plain;
    if (i == 1)
        return has_avx2 ? &avx2 : NULL;
    return i == 2 && has_avx512 ? &avx512 : NULL;
}
#else
const dot_kernels *dot_kernel_tables(int i)
{
    return i == 0 ? &plain : NULL;
}
#endif

const dot_kernels *dot_kernel_best(void)
{
    const dot_kernels *best = dot_kernel_tables(0);
    for (int i = 1; dot_kernel_tables(i); i++)
        best = dot_kernel_tables(i);
    return best;
}
