/* Sorting and running sums of lines that are longer than what one thread takes at once. */
#include "array/sort.h"

#include <math.h>

#include "array/reduce.h"
#include "base/stop.h"
#include "test_array.h"

enum { LONG = 270001 };

/* Numbers with many that are equal, in no order; whole ones for integers. */
static kv_array *mixed(kv_dtype dtype, int64_t n)
{
    uint32_t seed = 1;
    own_array *a = MADE(kv_array, kv_array_new, KV_FLOAT64, 1, &n, cpu0);
    double *data = array_data(a);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (double)(seed >> 16) - 30000;
    }
    return MADE(kv_array, kv_array_dup, a, dtype, cpu0);
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void check_sorted(kv_dtype dtype, int64_t n, bool down)
{
    kv_array *a = mixed(dtype, n), *sorted = NULL, *order = NULL;
    static double x[LONG], y[LONG], want[LONG];
    array_read_all(kv_array_ref(a), x);
    memcpy(want, x, (size_t)n * sizeof *x);
    qsort(want, (size_t)n, sizeof *want, by_number);
    CHECK_OK(sort_array(&sorted, a, SORT_VALUES, -1, down, &e));
    CHECK_INT(kv_array_dtype(sorted), dtype);
    array_read_all(sorted, y);
    bool same = true, stable = true;
    for (int64_t i = 0; i < n; i++)
        same &= y[i] == want[down ? n - 1 - i : i];
    CHECK(same);
    CHECK_OK(sort_array(&order, a, SORT_INDICES, -1, down, &e));
    const int64_t *at = array_elements(order);
    for (int64_t i = 0; i < n; i++) {
        same &= x[at[i]] == y[i];
        stable &= i == 0 || y[i] != y[i - 1] || at[i] > at[i - 1];
    }
    CHECK(same && stable);
    kv_array_unref(order);
    kv_array_unref(a);
}

TEST(sort_lengths)
{
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_INT32, KV_INT64, KV_BFLOAT16};
    static const int64_t lengths[] = {1, 48, 49, 1000, 131072, 131073, LONG};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            check_sorted(dtypes[d], lengths[i], (d + i) % 2);
}

/* nan is last, and -0 and 0 keep their order where indices are sorted. */
TEST(sort_nan)
{
    kv_array *a = array_vector(KV_FLOAT64, 5, (double[]){NAN, 1, 0, -0.0, -INFINITY}), *r = NULL;
    double x[5];
    CHECK_OK(sort_array(&r, a, SORT_VALUES, 0, false, &e));
    array_read_all(r, x);
    CHECK(x[0] == -INFINITY && x[3] == 1 && isnan(x[4]));
    CHECK_OK(sort_array(&r, a, SORT_INDICES, 0, false, &e));
    CHECK(memcmp(array_elements(r), (int64_t[]){4, 2, 3, 1, 0}, sizeof(int64_t[5])) == 0);
    kv_array_unref(r);
    CHECK_CODE(sort_array(&r, a, SORT_VALUES, 1, false, &e), KV_E_INDEX);
    kv_array_unref(a);
}

/* An array without axes is a line of one element, along axis 0 and -1. */
TEST(sort_without_axes)
{
    own_array *a = MADE(kv_array, kv_array_new, KV_FLOAT32, 0, NULL, cpu0);
    float *data = array_data(a);
    *data = 3;
    own_array *r = MADE(kv_array, sort_array, a, SORT_VALUES, 0, false);
    own_array *order = MADE(kv_array, sort_array, a, SORT_INDICES, -1, true);
    CHECK(kv_array_ndim(r) == 0 && *(const float *)array_elements(r) == 3);
    CHECK(kv_array_ndim(order) == 0 && *(const int64_t *)array_elements(order) == 0);
    CHECK_ERR(sort_array(&r, a, SORT_VALUES, 1, false, &e), KV_E_INDEX,
              "axis 1 is out of range: the array has 0 axes");
}

TEST(scan_long)
{
    kv_array *a = mixed(KV_INT32, LONG), *r = NULL, *wide = NULL;
    static double x[LONG];
    array_read_all(kv_array_ref(a), x);
    CHECK_OK(scan_sum(&r, a, 0, KV_INT64, &e));
    const int64_t *sum = array_elements(r);
    double all = 0;
    bool same = true;
    for (int64_t i = 0; i < LONG; i++)
        same &= (all += x[i]) == (double)sum[i];
    CHECK(same);
    kv_array_unref(r);
    CHECK_OK(scan_sum(&wide, a, -1, KV_FLOAT64, &e));
    CHECK(((const double *)array_elements(wide))[LONG - 1] == all);
    kv_array_unref(wide);
    kv_array_unref(a);
}

static int always(void)
{
    return 1;
}

TEST(sort_order_of_memory)
{
    const float x[] = {2, -1, 0.0F, -0.0F, 2, -1};
    const double y[] = {3, INFINITY, -2, 3};
    int64_t room[64];
    CHECK(sort_order_bytes(6) <= (int64_t)sizeof room);
    const int64_t *at = sort_order(room, x, KV_FLOAT32, 6);
    for (int i = 0; i < 6; i++)
        CHECK_INT(at[i], ((int[]){1, 5, 2, 3, 0, 4})[i]);
    at = sort_order(room, y, KV_FLOAT64, 4);
    for (int i = 0; i < 4; i++)
        CHECK_INT(at[i], ((int[]){2, 0, 3, 1})[i]);
}

/* An element beside inf, and inf beside inf: the distance times 0 would be nan. */
TEST(sort_quantiles_of_inf)
{
    double x[4];
    own_array *a = MADE(kv_array, kv_array_new, KV_FLOAT64, 1, (int64_t[]){4}, cpu0);
    memcpy(array_data(a), (double[]){INFINITY, 1, INFINITY, 2}, sizeof x);
    kv_array *q = MADE(kv_array, sort_quantiles, a, (double[]){0, 1. / 3, 5. / 6, 1}, 4, 0);
    array_read_all(q, x);
    CHECK(x[0] == 1 && x[1] == 2 && x[2] == INFINITY && x[3] == INFINITY);
}

/* Half way to an infinite number, and between numbers whose distance no double holds. */
TEST(sort_quantiles_that_are_far_apart)
{
    const struct {
        double x[2], q, is;
    } t[] = {{{4, INFINITY}, 0.5, INFINITY},
             {{4, INFINITY}, 0.75, INFINITY},
             {{-INFINITY, 4}, 0.25, -INFINITY},
             {{-1.5e308, 1.5e308}, 0.5, 0},
             {{-1.5e308, 1.5e308}, 0.75, 0.75e308}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        double got;
        own_array *a = MADE(kv_array, kv_array_new, KV_FLOAT64, 1, (int64_t[]){2}, cpu0);
        memcpy(array_data(a), t[i].x, sizeof t[i].x);
        kv_array *q = MADE(kv_array, sort_quantiles, a, &t[i].q, 1, 0);
        array_read_all(q, &got);
        CHECK(got == t[i].is);
    }
}

TEST(sort_and_scan_stop)
{
    kv_array *a = mixed(KV_FLOAT32, LONG), *r = NULL;
    stop_ask(always);
    CHECK_ERR(sort_array(&r, a, SORT_VALUES, 0, false, &e), KV_E_INTERRUPTED, "interrupted");
    CHECK_ERR(scan_sum(&r, a, 0, KV_FLOAT32, &e), KV_E_INTERRUPTED, "interrupted");
    CHECK_ERR(sort_unique(&r, NULL, NULL, NULL, a, &e), KV_E_INTERRUPTED, "interrupted");
    stop_ask(NULL);
    CHECK(!r);
    kv_array_unref(a);
}
