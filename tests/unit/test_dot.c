/* Products of vectors and matrices: their shapes, the order of their sums, their kernels. */
#include "array/dot.h"

#include <math.h>

#include "array/arrange.h"
#include "array/reduce.h"
#include "base/stop.h"
#include "test_array.h"

/* The product has these axes and elements. */
static void check_dot(kv_array *a, kv_array *b, kv_dtype dtype, int ndim, int n, const double *want)
{
    double got[9];
    kv_array *r = MADE(kv_array, dot_arrays, a, b, dtype);
    CHECK(kv_array_ndim(r) == ndim && kv_array_dtype(r) == dtype && kv_array_size(r) == n);
    array_read_all(r, got);
    CHECK(memcmp(got, want, (size_t)n * sizeof *want) == 0);
}

TEST(dot_shapes)
{
    kv_array *r;
    own_array *v = array_vector(KV_FLOAT32, 3, (double[]){1, 2, 3});
    own_array *six = array_vector(KV_FLOAT32, 6, (double[]){1, 2, 3, 4, 5, 6});
    own_array *m = MADE(kv_array, kv_array_view, six, 2, (int64_t[]){2, 3});
    own_array *t = MADE(kv_array, kv_array_view, six, 2, (int64_t[]){3, 2});
    check_dot(v, v, KV_FLOAT32, 0, 1, (double[]){14});
    check_dot(m, v, KV_FLOAT16, 1, 2, (double[]){14, 32});
    check_dot(v, t, KV_INT8, 1, 2, (double[]){22, 28});
    check_dot(t, m, KV_FLOAT64, 2, 9, (double[]){9, 12, 15, 19, 26, 33, 29, 40, 51});
    CHECK_CODE(dot_arrays(&r, m, m, KV_FLOAT32, &e), KV_E_SHAPE);
}

/* One element, in the order that dot.h states. */
#define ORDERED(name, T)                                                                           \
    static T name(const void *left, const void *right, int64_t i, int64_t j, int64_t depth,        \
                  int64_t m)                                                                       \
    {                                                                                              \
        const T *a = left, *b = right;                                                             \
        T sum = 0, block = 0;                                                                      \
        for (int64_t k = 0; k < depth; k++) {                                                      \
            block += a[i * depth + k] * b[k * m + j];                                              \
            if ((k + 1) % REDUCE_BLOCK == 0 || k + 1 == depth) {                                   \
                sum = k < REDUCE_BLOCK ? block : sum + block;                                      \
                block = 0;                                                                         \
            }                                                                                      \
        }                                                                                          \
        return sum;                                                                                \
    }

ORDERED(ordered_f32, float)
ORDERED(ordered_f64, double)
ORDERED(ordered_i64, uint64_t)

static bool same(const void *got, int64_t at, kv_dtype dtype, const void *a, const void *b,
                 int64_t i, int64_t j, int64_t depth, int64_t m)
{
    if (dtype == KV_FLOAT32)
        return ((const float *)got)[at] == ordered_f32(a, b, i, j, depth, m);
    if (dtype == KV_FLOAT64)
        return ((const double *)got)[at] == ordered_f64(a, b, i, j, depth, m);
    return ((const uint64_t *)got)[at] == ordered_i64(a, b, i, j, depth, m);
}

/* Some or all elements of a product. */
static void check_product(kv_dtype dtype, int64_t n, int64_t depth, int64_t m)
{
    own_array *a = array_numbers(2, (int64_t[]){n, depth}, dtype);
    own_array *b = array_numbers(2, (int64_t[]){depth, m}, dtype), *r = NULL;
    CHECK_OK(dot_arrays(&r, a, b, dtype, &e));
    CHECK_INT(kv_array_shape(r)[0], n);
    CHECK_INT(kv_array_shape(r)[1], m);
    int64_t wrong = 0, step = n * m * depth > 20000000 ? 97 : 1;
    for (int64_t at = 0; at < n * m; at += step)
        wrong += !same(array_elements(r), at, dtype, array_elements(a), array_elements(b), at / m,
                       at % m, depth, m);
    CHECK_INT(wrong, 0);
}

static void check_products(void)
{
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_INT64};
    static const int64_t sizes[][3] = {
        {1, 1, 2},     {1, 3, 7},     {5, 4, 2},      {7, 9, 3},      {6, 16, 16},   {6, 256, 16},
        {13, 257, 33}, {1, 300, 300}, {193, 10, 257}, {400, 300, 5},  {5, 4095, 17}, {3, 4096, 2},
        {2, 4097, 40}, {8, 9000, 20}, {200, 4500, 3}, {300, 600, 520}};
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_product(dtypes[k], sizes[i][0], sizes[i][1], sizes[i][2]);
}

TEST(dot_order_on_one_thread)
{
    setenv("KVSTORE_THREADS", "1", 1);
    check_products();
}

TEST(dot_order_on_many_threads)
{
    setenv("KVSTORE_THREADS", "7", 1);
    check_products();
}

/* The other arrangement of the same factors. */
TEST(dot_transposed)
{
    own_array *a = array_numbers(2, (int64_t[]){70, 500}, KV_FLOAT32);
    own_array *b = array_numbers(2, (int64_t[]){500, 90}, KV_FLOAT32);
    own_array *t = MADE(kv_array, arrange_transpose, a, NULL, 0);
    own_array *u = MADE(kv_array, arrange_transpose, b, NULL, 0);
    own_array *r = MADE(kv_array, dot_arrays, a, b, KV_FLOAT32);
    own_array *s = MADE(kv_array, dot_arrays, u, t, KV_FLOAT32);
    own_array *back = MADE(kv_array, arrange_transpose, s, NULL, 0);
    CHECK(!memcmp(array_elements(r), array_elements(back), (size_t)kv_array_bytes(r)));
}

/* One column is added as a sum is, of products in float64. */
TEST(dot_column)
{
    const int64_t n = 3, depth = 9001;
    own_array *a = array_numbers(2, (int64_t[]){n, depth}, KV_FLOAT32);
    own_array *b = array_numbers(1, (int64_t[]){depth}, KV_FLOAT32);
    own_array *column = array_numbers(2, (int64_t[]){depth, 1}, KV_FLOAT32);
    own_array *r = MADE(kv_array, dot_arrays, a, b, KV_FLOAT32);
    own_array *one = MADE(kv_array, dot_arrays, a, column, KV_FLOAT32);
    CHECK(!memcmp(array_elements(r), array_elements(one), n * sizeof(float)));
    own_array *wide = MADE(kv_array, kv_array_new, KV_FLOAT64, 2, (int64_t[]){n, depth}, cpu0);
    double *products = array_data(wide);
    for (int64_t i = 0; i < n * depth; i++)
        products[i] = (double)((const float *)array_elements(a))[i] *
                      (double)((const float *)array_elements(b))[i % depth];
    own_array *sum = MADE(kv_array, reduce_array, wide, REDUCE_SUM, (int64_t[]){1}, 1, NULL);
    for (int64_t i = 0; i < n; i++)
        CHECK(((const float *)array_elements(r))[i] ==
              (float)((const double *)array_elements(sum))[i]);
}

TEST(dot_of_nothing)
{
    static const int64_t sizes[][3] = {{0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {2, 0, 1}, {0, 0, 1}};
    for (int i = 0; i < 5; i++) {
        const int64_t *s = sizes[i];
        own_array *a = array_numbers(2, (int64_t[]){s[0], s[1]}, KV_FLOAT32), *r = NULL;
        own_array *b = array_numbers(2, (int64_t[]){s[1], s[2]}, KV_FLOAT32);
        CHECK_OK(dot_arrays(&r, a, b, KV_FLOAT32, &e));
        CHECK_INT(kv_array_size(r), s[0] * s[2]);
        for (int64_t k = 0; k < s[0] * s[2]; k++)
            CHECK(((const float *)array_elements(r))[k] == 0);
    }
}

/* Every table that this processor can use gives the same bits, nans and infinities aside. */
TEST(dot_kernels)
{
    static float a[300 * DOT_ROWS], b[300 * 16], want[DOT_ROWS * 20], got[DOT_ROWS * 20];
    static double c[300 * DOT_ROWS], d[300 * 8], wide[DOT_ROWS * 8], other[DOT_ROWS * 8];
    for (int i = 0; i < 300 * 16; i++) {
        b[i] = (float)sin(i * 1.7);
        a[i % (300 * DOT_ROWS)] = c[i % (300 * DOT_ROWS)] = (float)cos(i * 0.3);
        d[i % (300 * 8)] = sin(i * 0.9);
    }
    for (int i = 0; dot_kernel_tables(i); i++) {
        for (int k = 0; k < DOT_ROWS * 20; k++)
            got[k] = (float)k;
        for (int k = 0; k < DOT_ROWS * 8; k++)
            other[k] = k;
        dot_kernel_tables(i)->f32(got, 20, a, b, 300);
        dot_kernel_tables(i)->f64(other, 8, c, d, 300);
        if (i == 0) {
            memcpy(want, got, sizeof want);
            memcpy(wide, other, sizeof wide);
        }
        CHECK(!memcmp(want, got, sizeof want));
        CHECK(!memcmp(wide, other, sizeof wide));
    }
    CHECK(want[16] == 16 && want[19] == 19);
}

static int after_some(void)
{
    static _Atomic int asked;
    return ++asked > 3;
}

TEST(dot_stops)
{
    kv_array *a = array_numbers(2, (int64_t[]){600, 600}, KV_FLOAT32), *r = NULL;
    own_array *v = array_numbers(1, (int64_t[]){600}, KV_FLOAT32);
    stop_ask(after_some);
    CHECK_ERR(dot_arrays(&r, a, a, KV_FLOAT32, &e), KV_E_INTERRUPTED, "interrupted");
    CHECK(!r);
    CHECK_ERR(dot_arrays(&r, a, v, KV_FLOAT32, &e), KV_E_INTERRUPTED, "interrupted");
    CHECK_ERR(reduce_array(&r, a, REDUCE_SUM, NULL, 0, NULL, &e), KV_E_INTERRUPTED, "interrupted");
    CHECK(!r);
    stop_ask(NULL);
    kv_array_unref(a);
}
