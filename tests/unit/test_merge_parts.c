/* The loops that merges are made of: draws, ranks, products, sums. */
#include <math.h>

#include "array/sort.h"
#include "base/philox.h"
#include "merge/merge_adapter.h"
#include "merge/merge_job.h"
#include "test.h"
#include "vm/kernel_fold.h"

/* Whichever loops a processor takes. Counters cross the carry into the upper half. */
TEST(merge_draw_is_philox)
{
    static const uint64_t groups[] = {0, (UINT64_C(1) << 28) - 2, UINT64_C(0x123456789abcdef)};
    const uint64_t seed = UINT64_C(0xf123456789abcdef), hash = UINT64_C(0xfedcba9812345678);
    float x[4 * KERNEL_UNIFORMS];
    double wide[4 * KERNEL_UNIFORMS];
    for (int i = 0; i < 3 * 3; i++) {
        const kernel_table *k = kernel_tables(i / 3);
        if (!k)
            break;
        k->uniforms(x, false, seed, hash, groups[i % 3], 4);
        k->uniforms(wide, true, seed, hash, groups[i % 3], 4);
        for (int n = 0; n < 4 * KERNEL_UNIFORMS; n++) {
            uint64_t at = (groups[i % 3] + (uint64_t)(n / 64)) * 16 + (uint64_t)(n % 16);
            philox counter = {{(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)hash,
                               (uint32_t)(hash >> 32)}};
            philox p = philox_rounds(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
            CHECK(x[n] == (float)(p.word[n % 64 / 16] >> 8) * 0x1p-24f);
            CHECK(wide[n] == (double)x[n]);
        }
    }
}

TEST(merge_draw_moments)
{
    enum { GROUPS = 4000, N = GROUPS * KERNEL_UNIFORMS };
    OWN(test_free) float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    static const uint64_t seeds[] = {1, 2, 1, 1}, hashes[] = {7, 7, 8, UINT64_C(7) << 32};
    for (int k = 0; k < 4; k++) {
        double sum = 0, squares = 0, with = 0;
        kernel_best()->uniforms(k ? y : x, false, seeds[k], hashes[k], 0, GROUPS);
        const float *z = k ? y : x;
        for (int i = 0; i < N; i++) {
            CHECK(z[i] >= 0 && z[i] < 1);
            sum += (double)z[i];
            squares += ((double)z[i] - 0.5) * ((double)z[i] - 0.5);
            with += ((double)z[i] - 0.5) * ((double)x[(i + (k == 0)) % N] - 0.5);
        }
        CHECK(fabs(sum / N - 0.5) < 0.003);
        CHECK(fabs(squares / N - 1.0 / 12) < 0.001);
        CHECK(fabs(with / N) < 0.001); /* of neighbours, and of other seeds, hashes */
    }
}

static double at(const void *x, bool wide, int64_t i)
{
    return wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void put(void *x, bool wide, int64_t i, double y)
{
    if (wide)
        ((double *)x)[i] = y;
    else
        ((float *)x)[i] = (float)y;
}

TEST(merge_row_ranks)
{
    static const int64_t sizes[] = {1, 2, 3, 47, 48, 49, 500};
    static const double special[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1, 1, -1, 1e-300, 5};
    double terms[500], rank[500];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int wide = 0; wide < 2; wide++)
            for (int way = 0; way < 3; way++) {
                int64_t n = sizes[s];
                OWN(test_free)
                void *scratch = aligned_alloc(64, (size_t)((sort_order_bytes(n) + 63) / 64 * 64));
                for (int64_t i = 0; i < n; i++)
                    put(terms, wide, i,
                        way == 0   ? sin((double)i * 37)
                        : way == 1 ? special[i * 7 % 10]
                                   : (double)(i % 3));
                row_ranks(rank, terms, wide, n, scratch);
                for (int64_t i = 0; i < n; i++) {
                    double x = at(terms, wide, i);
                    int64_t before = 0;
                    for (int64_t k = 0; k < n; k++) {
                        double y = at(terms, wide, k);
                        bool equal = x == y || (x != x && y != y);
                        before += equal ? k < i : y < x || (x != x && y == y);
                    }
                    double want = n == 1 ? 0.5 : (double)before / (double)(n - 1);
                    CHECK(at(rank, wide, i) == (wide ? want : (double)(float)want));
                }
            }
}

TEST(merge_products)
{
    enum { ROWS = 7, COLUMNS = 1300, RANK = 11 };
    for (int wide = 0; wide < 2; wide++) {
        OWN(test_free)
        double *a = malloc(RANK * COLUMNS * sizeof *a), *b = malloc(ROWS * RANK * sizeof *b);
        OWN(test_free) double *got = malloc(ROWS * COLUMNS * sizeof *got);
        for (int i = 0; i < RANK * COLUMNS; i++)
            put(a, wide, i, sin(i));
        for (int i = 0; i < ROWS * RANK; i++)
            put(b, wide, i, cos(i * 3));
        merge_product p = {a, b, RANK, COLUMNS, wide};
        int64_t size = ROWS * COLUMNS, width = wide ? 8 : 4;
        for (int64_t from = 0, n = 1; from < size; from += n, n = n * 3 % 997) {
            n = n < size - from ? n : size - from;
            merge_product_part((char *)got + from * width, &p, from, n);
        }
        for (int64_t i = 0; i < size; i++) {
            double sum = 0;
            for (int64_t k = 0; k < RANK; k++)
                sum += at(b, wide, i / COLUMNS * RANK + k) * at(a, wide, k * COLUMNS + i % COLUMNS);
            CHECK(at(got, wide, i) == (wide ? sum : (double)(float)sum));
        }
    }
}

TEST(merge_folds)
{
    double x[1000];
    for (int wide = 0; wide < 2; wide++)
        for (int64_t n = 1; n < 200; n += 3) {
            prog_type type = wide ? PROG_F64 : PROG_F32;
            double sum = 0, most = -INFINITY, least = INFINITY;
            for (int64_t i = 0; i < n; i++) {
                put(x, wide, i, (double)((i * 7919 % 201) - 100));
                sum += at(x, wide, i);
                most = fmax(most, at(x, wide, i));
                least = fmin(least, at(x, wide, i));
            }
            CHECK(kernel_fold_chunk(PLAN_SUM, type, x, n) == sum);
            CHECK(kernel_fold_chunk(PLAN_MAX, type, x, n) == most);
            CHECK(kernel_fold_chunk(PLAN_MIN, type, x, n) == least);
            put(x, wide, n / 2, (double)NAN);
            for (int fold = PLAN_SUM; fold < PLAN_FOLDS; fold++)
                CHECK(isnan(kernel_fold_chunk((plan_fold)fold, type, x, n)));
        }
}
