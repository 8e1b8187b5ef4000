/* Reductions and products: their numbers, their order, their dtypes. */
#include "array/reduce.h"

#include <math.h>
#include <string.h>

#include "array/dot.h"
#include "test.h"

static const kv_ctx cpu0 = {KV_CPU, 0};

/* n numbers from -50/7 to 50/7 in an order that does not repeat for 101 elements. */
static kv_array *numbers(int ndim, const int64_t *shape, kv_dtype dtype)
{
    kv_err e = {0};
    kv_array *a = NULL, *b = NULL;
    void *data = NULL;
    CHECK_OK(kv_array_new(&a, KV_FLOAT64, ndim, shape, cpu0, &e));
    CHECK_OK(kv_array_write(a, &data, &e));
    for (int64_t i = 0; i < kv_array_size(a); i++)
        ((double *)data)[i] = (double)(i * 37 % 101 - 50) / 7;
    CHECK_OK(kv_array_dup(&b, a, dtype, cpu0, &e));
    kv_array_unref(a);
    return b;
}

/* A vector of whole numbers in a dtype. */
static kv_array *vector(kv_dtype dtype, int n, const double *x)
{
    kv_err e = {0};
    kv_array *a = NULL, *b = NULL;
    CHECK_OK(kv_array_wrap(&a, (void *)(uintptr_t)x, KV_FLOAT64, 1, (int64_t[]){n}, cpu0, NULL,
                           NULL, &e));
    CHECK_OK(kv_array_dup(&b, a, dtype, cpu0, &e));
    kv_array_unref(a);
    return b;
}

/* The elements of a, which is released, as binary64. */
static void read_all(kv_array *a, double *out)
{
    kv_err e = {0};
    kv_array *wide = NULL;
    const void *data = NULL;
    CHECK_OK(kv_array_dup(&wide, a, KV_FLOAT64, cpu0, &e));
    CHECK_OK(kv_array_read(wide, &data, &e));
    memcpy(out, data, (size_t)kv_array_bytes(wide));
    kv_array_unref(wide);
    kv_array_unref(a);
}

static double reduce_all(kv_array *a, reduce_op op, kv_dtype want)
{
    kv_err e = {0};
    kv_array *r = NULL;
    double x = 0;
    CHECK_OK(reduce_array(&r, a, op, NULL, 0, &e));
    CHECK_INT(kv_array_ndim(r), 0);
    CHECK_INT(kv_array_dtype(r), want);
    read_all(r, &x);
    return x;
}

/* Worked out with numpy, adding one number at a time in blocks of 4096; the lengths stand around
 * the ends of blocks and of the four that are added side by side. n; sum, mean and norm in float32,
 * in float64; sum and mean of float16, as bits. */
TEST(reduce_order)
{
    static const struct {
        int64_t n;
        float sum, mean, norm;
        double dsum, dmean, dnorm;
        uint16_t hsum, hmean;
    } cases[] = {
        {1, -0x1.c92492p+2f, -0x1.c92492p+2f, 0x1.c92492p+2f, -0x1.c924924924925p+2,
         -0x1.c924924924925p+2, 0x1.c924924924925p+2, 0xc725, 0xc725},
        {4095, -0x1.924698p+1f, -0x1.925fbep-11f, 0x1.0a8d8cp+8f, -0x1.9249249249242p+1,
         -0x1.92624ab6f4937p-11, 0x1.0a8d8fee63516p+8, 0xc247, 0x9247},
        {4096, -0x1.0491a6p+3f, -0x1.0491a6p-9f, 0x1.0a998ep+8f, -0x1.0492492492490p+3,
         -0x1.0492492492490p-9, 0x1.0a9990f89e251p+8, 0xc812, 0x9812},
        {4097, -0x1.f6da28p+2f, -0x1.f6babcp-10f, 0x1.0a9998p+8f, -0x1.f6db6db6db6d7p+2,
         -0x1.f6bc01f6bc01bp-10, 0x1.0a999b01339fap+8, 0xc7da, 0x97da},
        {8192, -0x1.1247e4p+2f, -0x1.1247e4p-11f, 0x1.78f9d6p+8f, -0x1.1249249249246p+2,
         -0x1.1249249249246p-11, 0x1.78f9da8f93803p+8, 0xc44b, 0x904b},
        {20000, -0x1.1ffffep+3f, -0x1.d7dbf2p-12f, 0x1.268410p+9f, -0x1.1ffffffffffffp+3,
         -0x1.d7dbf487fcb91p-12, 0x1.26841483cfe6ep+9, 0xc880, 0x8f60},
        {70001, -0x1.4491a2p+3f, -0x1.2fddc6p-13f, 0x1.137d26p+10f, -0x1.4492492492494p+3,
         -0x1.2fde63613f2a9p-13, 0x1.137d29c0bbde8p+10, 0xc913, 0x88c0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t n = cases[i].n;
        kv_array *f = numbers(1, &n, KV_FLOAT32), *d = numbers(1, &n, KV_FLOAT64);
        kv_array *h = numbers(1, &n, KV_FLOAT16);
        CHECK(reduce_all(f, REDUCE_SUM, KV_FLOAT32) == (double)cases[i].sum);
        CHECK(reduce_all(f, REDUCE_MEAN, KV_FLOAT32) == (double)cases[i].mean);
        CHECK(reduce_all(f, REDUCE_NORM, KV_FLOAT32) == (double)cases[i].norm);
        CHECK(reduce_all(d, REDUCE_SUM, KV_FLOAT64) == cases[i].dsum);
        CHECK(reduce_all(d, REDUCE_MEAN, KV_FLOAT64) == cases[i].dmean);
        CHECK(reduce_all(d, REDUCE_NORM, KV_FLOAT64) == cases[i].dnorm);
        kv_err e = {0};
        kv_array *r = NULL;
        const void *bits = NULL;
        CHECK_OK(reduce_array(&r, h, REDUCE_SUM, NULL, 0, &e));
        CHECK_OK(kv_array_read(r, &bits, &e));
        CHECK_INT(*(const uint16_t *)bits, cases[i].hsum);
        kv_array_unref(r);
        CHECK_OK(reduce_array(&r, h, REDUCE_MEAN, NULL, 0, &e));
        CHECK_OK(kv_array_read(r, &bits, &e));
        CHECK_INT(*(const uint16_t *)bits, cases[i].hmean);
        kv_array_unref(r);
        kv_array_unref(f);
        kv_array_unref(d);
        kv_array_unref(h);
    }
}

/* A sum along an axis is, bit by bit, the sum of each line taken out and added by itself. */
static void check_lines(kv_dtype dtype, reduce_op op)
{
    kv_err e = {0};
    const int64_t rows = 9001, columns = 3, axis = 0;
    kv_array *a = numbers(2, (int64_t[]){rows, columns}, dtype), *r = NULL;
    double got[3], x[9001 * 3], line[9001];
    CHECK_OK(reduce_array(&r, a, op, &axis, 1, &e));
    CHECK_INT(kv_array_ndim(r), 1);
    CHECK_INT(kv_array_shape(r)[0], columns);
    read_all(r, got);
    read_all(kv_array_ref(a), x);
    for (int64_t c = 0; c < columns; c++) {
        for (int64_t i = 0; i < rows; i++)
            line[i] = x[i * columns + c];
        kv_array *one = vector(dtype, (int)rows, line);
        double want = 0;
        CHECK_OK(reduce_array(&r, one, op, NULL, 0, &e));
        read_all(r, &want);
        CHECK(want == got[c]);
        kv_array_unref(one);
    }
    kv_array_unref(a);
}

TEST(reduce_along_axes_is_line_by_line)
{
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_FLOAT16, KV_BFLOAT16, KV_INT8};
    for (int i = 0; i < 5; i++)
        for (int op = REDUCE_SUM; op <= REDUCE_ARGMAX; op++)
            check_lines(dtypes[i], (reduce_op)op);
}

TEST(reduce_shapes)
{
    kv_err e = {0};
    kv_array *a = numbers(3, (int64_t[]){2, 3, 4}, KV_FLOAT64), *r = NULL;
    double all[24], got[24];
    read_all(kv_array_ref(a), all);
    CHECK_OK(reduce_array(&r, a, REDUCE_SUM, (int64_t[]){1}, 1, &e));
    CHECK_INT(kv_array_shape(r)[0], 2);
    CHECK_INT(kv_array_shape(r)[1], 4);
    read_all(r, got);
    CHECK(got[5] == all[13] + all[17] + all[21]);
    CHECK_OK(reduce_array(&r, a, REDUCE_MAX, (int64_t[]){-1}, 1, &e));
    CHECK_INT(kv_array_shape(r)[1], 3);
    read_all(r, got);
    CHECK(got[1] == fmax(fmax(all[4], all[5]), fmax(all[6], all[7])));
    CHECK_OK(reduce_array(&r, a, REDUCE_SUM, (int64_t[]){2, 0}, 2, &e));
    CHECK_INT(kv_array_ndim(r), 1);
    read_all(r, got);
    double want = 0;
    for (int i = 0; i < 8; i++)
        want += all[4 + i % 4 + i / 4 * 12];
    CHECK(got[1] == want);
    CHECK_OK(reduce_array(&r, a, REDUCE_SUM, (int64_t[]){0}, 0, &e));
    CHECK(kv_array_same_shape(r, a));
    read_all(r, got);
    CHECK(!memcmp(got, all, sizeof all));
    CHECK_ERR(reduce_array(&r, a, REDUCE_SUM, (int64_t[]){3}, 1, &e), KV_E_INDEX,
              "axis 3 is out of range: the array has 3 axes");
    CHECK_ERR(reduce_array(&r, a, REDUCE_SUM, (int64_t[]){1, -2}, 2, &e), KV_E_VALUE,
              "axis -2 is named twice");
    kv_array_unref(a);
}

TEST(reduce_integers)
{
    kv_array *i8 = vector(KV_INT8, 3, (double[]){100, 100, -3});
    kv_array *u8 = vector(KV_UINT8, 2, (double[]){200, 100});
    kv_array *i32 = vector(KV_INT32, 2, (double[]){2147483647, 1});
    kv_array *bits = vector(KV_BOOL, 4, (double[]){1, 0, 1, 1});
    CHECK(reduce_all(i8, REDUCE_SUM, KV_INT8) == -59);
    CHECK(reduce_all(u8, REDUCE_SUM, KV_UINT8) == 44);
    CHECK(reduce_all(i32, REDUCE_SUM, KV_INT32) == -2147483648.0);
    CHECK(reduce_all(bits, REDUCE_SUM, KV_INT64) == 3);
    CHECK(reduce_all(bits, REDUCE_MEAN, KV_FLOAT32) == 0.75);
    CHECK(reduce_all(bits, REDUCE_MIN, KV_BOOL) == 0);
    CHECK(reduce_all(i32, REDUCE_MEAN, KV_FLOAT32) == 1073741824);
    CHECK(reduce_all(i8, REDUCE_MIN, KV_INT8) == -3);
    CHECK(reduce_all(i8, REDUCE_ARGMAX, KV_INT64) == 0);
    CHECK(reduce_all(i8, REDUCE_NORM, KV_FLOAT32) == (double)(float)sqrt(20009));
    kv_array_unref(i8);
    kv_array_unref(u8);
    kv_array_unref(i32);
    kv_array_unref(bits);
}

TEST(reduce_nan_and_nothing)
{
    kv_err e = {0};
    kv_array *r = NULL;
    kv_array *x = vector(KV_FLOAT32, 5, (double[]){1, NAN, 7, NAN, -9});
    kv_array *none = vector(KV_FLOAT32, 0, (double[]){0});
    kv_array *wide = numbers(2, (int64_t[]){0, 2}, KV_INT32);
    CHECK(isnan(reduce_all(x, REDUCE_MAX, KV_FLOAT32)));
    CHECK(isnan(reduce_all(x, REDUCE_MIN, KV_FLOAT32)));
    CHECK(reduce_all(x, REDUCE_ARGMAX, KV_INT64) == 1);
    CHECK(reduce_all(none, REDUCE_SUM, KV_FLOAT32) == 0);
    CHECK(reduce_all(none, REDUCE_NORM, KV_FLOAT32) == 0);
    CHECK(isnan(reduce_all(none, REDUCE_MEAN, KV_FLOAT32)));
    CHECK_ERR(reduce_array(&r, none, REDUCE_MAX, NULL, 0, &e), KV_E_VALUE,
              "max() of no elements has no value");
    CHECK_ERR(reduce_array(&r, wide, REDUCE_ARGMAX, (int64_t[]){0}, 1, &e), KV_E_VALUE,
              "argmax() of no elements has no value");
    double got[2] = {1, 1};
    CHECK_OK(reduce_array(&r, wide, REDUCE_SUM, (int64_t[]){0}, 1, &e));
    CHECK_INT(kv_array_size(r), 2);
    read_all(r, got);
    CHECK(got[0] == 0 && got[1] == 0);
    CHECK_OK(reduce_array(&r, wide, REDUCE_MAX, (int64_t[]){1}, 1, &e));
    CHECK_INT(kv_array_size(r), 0);
    kv_array_unref(r);
    kv_array_unref(x);
    kv_array_unref(none);
    kv_array_unref(wide);
}

TEST(dot_shapes)
{
    kv_err e = {0};
    kv_array *r = NULL, *v = vector(KV_FLOAT32, 3, (double[]){1, 2, 3});
    kv_array *six = vector(KV_FLOAT32, 6, (double[]){1, 2, 3, 4, 5, 6}), *m = NULL, *t = NULL;
    double got[9];
    CHECK_OK(kv_array_view(&m, six, 2, (int64_t[]){2, 3}, &e));
    CHECK_OK(kv_array_view(&t, six, 2, (int64_t[]){3, 2}, &e));
    CHECK_OK(dot_arrays(&r, v, v, KV_FLOAT32, &e));
    CHECK_INT(kv_array_ndim(r), 0);
    read_all(r, got);
    CHECK(got[0] == 14);
    CHECK_OK(dot_arrays(&r, m, v, KV_FLOAT16, &e));
    CHECK_INT(kv_array_dtype(r), KV_FLOAT16);
    read_all(r, got);
    CHECK(got[0] == 14 && got[1] == 32);
    CHECK_OK(dot_arrays(&r, v, t, KV_INT8, &e));
    read_all(r, got);
    CHECK(got[0] == 22 && got[1] == 28);
    CHECK_OK(dot_arrays(&r, t, m, KV_FLOAT64, &e));
    CHECK_INT(kv_array_shape(r)[0], 3);
    CHECK_INT(kv_array_shape(r)[1], 3);
    read_all(r, got);
    CHECK(got[0] == 9 && got[5] == 33 && got[8] == 51);
    CHECK_ERR(
        dot_arrays(&r, m, m, KV_FLOAT32, &e), KV_E_SHAPE,
        "dot() of shapes (2, 3) and (2, 3): the last axis of the first must be as long as the "
        "first axis of the second");
    kv_array_unref(m);
    kv_array_unref(t);
    kv_array_unref(six);
    kv_array_unref(v);
}

/* The sum of a[i] * 1 is the sum of a, in the same blocks; wide rows are cut into pieces. */
TEST(dot_order)
{
    kv_err e = {0};
    static double ones[9001];
    for (int i = 0; i < 9001; i++)
        ones[i] = 1;
    kv_array *a = numbers(1, (int64_t[]){9001}, KV_FLOAT32), *one = vector(KV_FLOAT32, 9001, ones);
    kv_array *wide = numbers(2, (int64_t[]){2, 1500}, KV_FLOAT32), *r = NULL;
    double got = 0, x[3000], y[1500];
    CHECK_OK(dot_arrays(&r, a, one, KV_FLOAT32, &e));
    read_all(r, &got);
    CHECK(got == reduce_all(a, REDUCE_SUM, KV_FLOAT32));
    kv_array *two = vector(KV_FLOAT32, 2, ones);
    CHECK_OK(dot_arrays(&r, two, wide, KV_FLOAT32, &e));
    read_all(r, y);
    read_all(wide, x);
    for (int i = 0; i < 1500; i++)
        CHECK(y[i] == (double)((float)x[i] + (float)x[i + 1500]));
    kv_array_unref(a);
    kv_array_unref(one);
    kv_array_unref(two);
}
