/* Reductions: their numbers, their order, their dtypes. */
#include "array/reduce.h"

#include <math.h>

#include "test_array.h"

static double reduce_all(kv_array *a, reduce_op op, kv_dtype want)
{
    double x = 0;
    kv_array *r = MADE(kv_array, reduce_array, a, op, NULL, 0, NULL);
    CHECK_INT(kv_array_ndim(r), 0);
    CHECK_INT(kv_array_dtype(r), want);
    array_read_all(r, &x);
    return x;
}

/* The sum of n numbers, or of their squares, in the order that reduce.h states. */
static double ordered(const double *x, int64_t n, bool square)
{
    static double partial[32];
    int64_t blocks = 0;
    for (int64_t at = 0; at < n; at += REDUCE_BLOCK) {
        double lane[16] = {0};
        int64_t end = n - at < REDUCE_BLOCK ? n : at + REDUCE_BLOCK, whole = end - (end - at) % 16;
        for (int64_t i = at; i < whole; i++)
            lane[(i - at) % 16] += square ? x[i] * x[i] : x[i];
        for (int h = 8; h > 0; h /= 2)
            for (int l = 0; l < h; l++)
                lane[l] += lane[l + h];
        for (int64_t i = whole; i < end; i++)
            lane[0] += square ? x[i] * x[i] : x[i];
        partial[blocks++] = lane[0];
    }
    return blocks > 1 ? ordered(memcpy((double[32]){0}, partial, sizeof partial), blocks, false)
                      : partial[0];
}

static double narrowed(double x, kv_dtype dtype)
{
    double back = 0;
    array_read_all(array_vector(dtype, 1, &x), &back);
    return back;
}

/* The lengths stand around the ends of blocks and of lanes. */
TEST(reduce_order)
{
    static const int64_t lengths[] = {1,    2,    15,   16,   17,   100,   4095,
                                      4096, 4097, 4112, 8192, 8193, 20000, 70001};
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_FLOAT16, KV_BFLOAT16};
    static double x[70001];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int k = 0; k < 4; k++) {
            int64_t n = lengths[i];
            own_array *a = array_numbers(1, &n, dtypes[k]);
            array_read_all(kv_array_ref(a), x);
            double sum = ordered(x, n, false), squares = ordered(x, n, true);
            CHECK(reduce_all(a, REDUCE_SUM, dtypes[k]) == narrowed(sum, dtypes[k]));
            CHECK(reduce_all(a, REDUCE_MEAN, dtypes[k]) == narrowed(sum / (double)n, dtypes[k]));
            CHECK(reduce_all(a, REDUCE_NORM, dtypes[k]) == narrowed(sqrt(squares), dtypes[k]));
        }
    }
}

/* The same error in every addition must not add up: ten million times 0.1. */
TEST(reduce_long)
{
    const int64_t n = 10000000;
    own_array *a = MADE(kv_array, kv_array_new_raw, KV_FLOAT32, 1, &n, cpu0);
    float *data = array_data(a);
    for (int64_t i = 0; i < n; i++)
        data[i] = 0.1f;
    CHECK(reduce_all(a, REDUCE_MEAN, KV_FLOAT32) == 0.1f);
    CHECK(reduce_all(a, REDUCE_SUM, KV_FLOAT32) == (float)(10000000 * (double)0.1f));
    own_array *columns = MADE(kv_array, kv_array_view, a, 2, (int64_t[]){n / 4, 4});
    double means[4];
    kv_array *r = MADE(kv_array, reduce_array, columns, REDUCE_MEAN, (int64_t[]){0}, 1, NULL);
    array_read_all(r, means);
    CHECK(means[0] == 0.1f && means[3] == 0.1f);
}

/* A sum along an axis is, bit by bit, the sum of each line taken out and added by itself. */
static void check_lines(kv_dtype dtype, reduce_op op)
{
    const int64_t rows = 9001, columns = 3, axis = 0;
    kv_array *a = array_numbers(2, (int64_t[]){rows, columns}, dtype), *r = NULL;
    double got[3], x[9001 * 3], line[9001];
    CHECK_OK(reduce_array(&r, a, op, &axis, 1, NULL, &e));
    CHECK_INT(kv_array_ndim(r), 1);
    CHECK_INT(kv_array_shape(r)[0], columns);
    array_read_all(r, got);
    array_read_all(kv_array_ref(a), x);
    for (int64_t c = 0; c < columns; c++) {
        for (int64_t i = 0; i < rows; i++)
            line[i] = x[i * columns + c];
        own_array *one = array_vector(dtype, (int)rows, line);
        double want = 0;
        CHECK_OK(reduce_array(&r, one, op, NULL, 0, NULL, &e));
        array_read_all(r, &want);
        CHECK(want == got[c]);
    }
    kv_array_unref(a);
}

TEST(reduce_along_axes_is_line_by_line)
{
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_FLOAT16, KV_BFLOAT16, KV_INT8};
    for (int i = 0; i < 5; i++)
        for (int op = REDUCE_SUM; op <= REDUCE_ARGMIN; op++)
            check_lines(dtypes[i], (reduce_op)op);
}

TEST(reduce_axes_that_are_not_there)
{
    own_array *a = array_numbers(3, (int64_t[]){2, 3, 4}, KV_FLOAT64), *r = NULL;
    CHECK_ERR(reduce_array(&r, a, REDUCE_SUM, (int64_t[]){3}, 1, NULL, &e), KV_E_INDEX,
              "axis 3 is out of range: the array has 3 axes");
    CHECK_ERR(reduce_array(&r, a, REDUCE_SUM, (int64_t[]){1, -2}, 2, NULL, &e), KV_E_VALUE,
              "axis -2 is named twice");
}

TEST(reduce_integers)
{
    own_array *i8 = array_vector(KV_INT8, 3, (double[]){100, 100, -3});
    own_array *u8 = array_vector(KV_UINT8, 2, (double[]){200, 100});
    own_array *i32 = array_vector(KV_INT32, 2, (double[]){2147483647, 1});
    own_array *bits = array_vector(KV_BOOL, 4, (double[]){1, 0, 1, 1});
    CHECK(reduce_all(i8, REDUCE_SUM, KV_INT64) == 197);
    CHECK(reduce_all(u8, REDUCE_SUM, KV_INT64) == 300);
    CHECK(reduce_all(i32, REDUCE_SUM, KV_INT64) == 2147483648.0);
    CHECK(reduce_all(bits, REDUCE_SUM, KV_INT64) == 3);
    CHECK(reduce_all(bits, REDUCE_MEAN, KV_FLOAT32) == 0.75);
    CHECK(reduce_all(bits, REDUCE_MIN, KV_BOOL) == 0);
    CHECK(reduce_all(i32, REDUCE_MEAN, KV_FLOAT32) == 1073741824);
    CHECK(reduce_all(i8, REDUCE_MIN, KV_INT8) == -3);
    CHECK(reduce_all(i8, REDUCE_ARGMAX, KV_INT64) == 0);
    CHECK(reduce_all(i8, REDUCE_NORM, KV_FLOAT32) == (double)(float)sqrt(20009));
}

TEST(reduce_nan_and_nothing)
{
    own_array *r = NULL;
    own_array *x = array_vector(KV_FLOAT32, 5, (double[]){1, NAN, 7, NAN, -9});
    own_array *none = array_vector(KV_FLOAT32, 0, (double[]){0});
    own_array *wide = array_numbers(2, (int64_t[]){0, 2}, KV_INT32);
    CHECK(isnan(reduce_all(x, REDUCE_MAX, KV_FLOAT32)));
    CHECK(isnan(reduce_all(x, REDUCE_MIN, KV_FLOAT32)));
    CHECK(reduce_all(x, REDUCE_ARGMAX, KV_INT64) == 1);
    CHECK(reduce_all(none, REDUCE_SUM, KV_FLOAT32) == 0);
    CHECK(reduce_all(none, REDUCE_NORM, KV_FLOAT32) == 0);
    CHECK(isnan(reduce_all(none, REDUCE_MEAN, KV_FLOAT32)));
    CHECK_CODE(reduce_array(&r, none, REDUCE_MAX, NULL, 0, NULL, &e), KV_E_VALUE);
    CHECK_CODE(reduce_array(&r, wide, REDUCE_ARGMAX, (int64_t[]){0}, 1, NULL, &e), KV_E_VALUE);
    double got[2] = {1, 1};
    CHECK_OK(reduce_array(&r, wide, REDUCE_SUM, (int64_t[]){0}, 1, NULL, &e));
    CHECK_INT(kv_array_size(r), 2);
    array_read_all(r, got);
    CHECK(got[0] == 0 && got[1] == 0);
    CHECK_OK(reduce_array(&r, wide, REDUCE_MAX, (int64_t[]){1}, 1, NULL, &e));
    CHECK_INT(kv_array_size(r), 0);
}

/* ---- Products ---- */

/* a[i][k] = i - k % 5 and b[k] = k % 7 - 3: all sums are whole and exact in each dtype. */
static void check_products(kv_dtype dtype, int64_t n, int64_t depth)
{
    OWN(test_free)
    double *x = malloc((size_t)(n * depth + 1) * sizeof *x), *y = malloc((size_t)(depth + 1) * 8);
    CHECK(x && y);
    for (int64_t k = 0; k < depth; k++)
        y[k] = (double)(k % 7 - 3);
    for (int64_t i = 0; i < n * depth; i++)
        x[i] = (double)(i / depth - i % depth % 5);
    own_array *a = array_vector(dtype, (int)(n * depth), x),
              *b = array_vector(dtype, (int)depth, y);
    kv_array *sums = array_vector(dtype, (int)n, (double[8]){-1, -1, -1});
    void *to = array_data(sums);
    CHECK_OK(reduce_products(to, array_elements(a), array_elements(b), dtype, n, depth, &e));
    double got[8];
    array_read_all(sums, got);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += x[i * depth + k] * y[k];
        CHECK(got[i] == sum);
    }
}

TEST(reduce_products_of_each_dtype)
{
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_INT64};
    static const int64_t depths[] = {0, 1, 7, 8, 9, 1000, 100003};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (size_t k = 0; k < sizeof depths / sizeof *depths; k++)
            check_products(dtypes[i], 3, depths[k]);
}

/* Sums of float32 are float64 until the end, and those of int64 wrap around. */
TEST(reduce_products_are_wide)
{
    float f[] = {0x1p24f, 1, -0x1p24f}, ones[] = {1, 1, 1}, sum;
    CHECK_OK(reduce_products(&sum, f, ones, KV_FLOAT32, 1, 3, &e));
    CHECK(sum == 1);
    int64_t big[] = {INT64_MAX, 2, 5}, by[] = {2, INT64_MAX, 1}, wrapped;
    CHECK_OK(reduce_products(&wrapped, big, by, KV_INT64, 1, 3, &e));
    CHECK_INT(wrapped, 1);
}

TEST(reduce_products_without_memory)
{
    for (int64_t depth = 0; depth <= 3; depth += 3) {
        double x[] = {1, 2, 3}, sum = -1;
        CHECK_INT(WITHOUT_MEMORY(1, reduce_products(&sum, x, x, KV_FLOAT64, 1, depth, &e)),
                  KV_E_MEMORY);
        CHECK(sum == -1);
    }
}
