/* row_sparse arrays: making, moving, converting, adding up; what refuses them. */
#include "array/sparse.h"

#include <math.h>

#include "array/arrange.h"
#include "array/reduce.h"
#include "array/slice.h"
#include "checkpoint/safetensors.h"
#include "io/csv.h"
#include "io/npy.h"
#include "io/print.h"
#include "test_array.h"

/* A 5 x 2 array that holds n rows; element j of the k-th is x[2 * k + j]. */
static kv_array *rows(int n, const int64_t *ids, const double *x, kv_dtype dtype)
{
    kv_array *a = MADE(kv_array, kv_array_new_sparse, dtype, 2, (int64_t[]){5, 2}, n, ids, cpu0);
    convert_elements(row_data(a), dtype, x, KV_FLOAT64, 2 * n);
    return a;
}

/* The elements of any array, as doubles. */
static void check(kv_array *a, int n, const double *want)
{
    own_array *dense = MADE(kv_array, kv_array_to_dense, a);
    own_array *wide = MADE(kv_array, kv_array_dup, dense, KV_FLOAT64, cpu0);
    const double *data = array_elements(wide);
    CHECK_INT(kv_array_size(wide), n);
    for (int i = 0; i < n; i++) {
        double x = data[i];
        CHECK(x == want[i] && !signbit(x) == !signbit(want[i]));
    }
}

static void check_ids(kv_array *a, int n, const int64_t *want)
{
    CHECK_INT(kv_array_storage(a), KV_ROW_SPARSE);
    CHECK_INT(kv_array_nrows(a), n);
    for (int i = 0; i < n; i++)
        CHECK_INT(kv_array_row_ids(a)[i], want[i]);
}

TEST(sparse_new)
{
    own_array *a = MADE(kv_array, kv_array_new_sparse, KV_FLOAT32, 3, (int64_t[]){1000000, 2, 2}, 2,
                        (int64_t[]){7, 999999}, (kv_ctx){KV_CPU, 3});
    check_ids(a, 2, (int64_t[]){7, 999999});
    CHECK_TEXT(kv_storage_name(kv_array_storage(a)), "row_sparse");
    CHECK_INT(kv_array_size(a), 4000000);
    CHECK_INT(kv_array_bytes(a), 2 * 4 * 4 + 2 * 8);
    CHECK_INT(kv_array_ctx(a).id, 3);
    const float *data = row_elements(a);
    for (int i = 0; i < 8; i++)
        CHECK(data[i] == 0);
    kv_array_unref(a);
    CHECK_OK(kv_array_new_sparse(&a, KV_INT8, 1, (int64_t[]){3}, 0, NULL, cpu0, &e));
    check_ids(a, 0, NULL);
    CHECK(kv_array_row_ids(a) != NULL);
    check(a, 3, (double[]){0, 0, 0});
    kv_array_unref(a);
    CHECK_OK(kv_array_new_sparse(&a, KV_INT8, 2, (int64_t[]){3, 0}, 1, (int64_t[]){2}, cpu0, &e));
    check_ids(a, 1, (int64_t[]){2});
    check(a, 0, NULL);
    kv_array_unref(a);
    CHECK_OK(kv_array_new(&a, KV_INT8, 1, (int64_t[]){3}, cpu0, &e));
    CHECK_TEXT(kv_storage_name(kv_array_storage(a)), "default");
    CHECK_INT(kv_array_nrows(a), 0);
    CHECK(kv_array_row_ids(a) == NULL);
}

TEST(sparse_new_refuses)
{
    own_array *a = NULL;
    const int64_t shape[] = {5, 2};
    CHECK_ERR(kv_array_new_sparse(&a, KV_FLOAT32, 2, shape, 1, (int64_t[]){5}, cpu0, &e),
              KV_E_INDEX, "an array of shape (5, 2) has no row 5");
    CHECK_ERR(kv_array_new_sparse(&a, KV_FLOAT32, 2, shape, 2, (int64_t[]){-1, 2}, cpu0, &e),
              KV_E_INDEX, "an array of shape (5, 2) has no row -1");
    CHECK_ERR(kv_array_new_sparse(&a, KV_FLOAT32, 2, shape, 2, (int64_t[]){2, 1}, cpu0, &e),
              KV_E_VALUE, "row ids ascend and none stands twice: not 2, 1");
    CHECK_ERR(kv_array_new_sparse(&a, KV_FLOAT32, 2, shape, 2, (int64_t[]){2, 2}, cpu0, &e),
              KV_E_VALUE, "row ids ascend and none stands twice: not 2, 2");
    CHECK_CODE(kv_array_new_sparse(&a, KV_FLOAT32, 2, shape, -1, NULL, cpu0, &e), KV_E_VALUE);
    CHECK_CODE(kv_array_new_sparse(&a, KV_FLOAT32, 0, NULL, 0, NULL, cpu0, &e), KV_E_SHAPE);
    CHECK_ERR(kv_array_new_sparse(&a, KV_FLOAT32, 2, (int64_t[]){5, -2}, 0, NULL, cpu0, &e),
              KV_E_SHAPE, "a shape has no negative sizes, as in (5, -2)");
    const int64_t row = 1;
    CHECK(FAILURES(kv_array_new_sparse(&a, KV_FLOAT32, 2, shape, 1, &row, cpu0, &e)) >= 3);
}

TEST(sparse_moves)
{
    const double x[] = {1, 2, 0, -0.0, 5.5, 6}, all[] = {0, 0, 1, 2, 0, -0.0, 0, 0, 5.5, 6};
    own_array *a = rows(3, (int64_t[]){1, 2, 4}, x, KV_FLOAT32), *b = NULL, *c = NULL;
    check(a, 10, all);
    CHECK_OK(kv_array_dup(&b, a, KV_FLOAT64, cpu0, &e)); /* storage stays */
    check_ids(b, 3, (int64_t[]){1, 2, 4});
    check(b, 10, all);
    CHECK_OK(kv_array_to_dense(&c, b, &e));
    CHECK_INT(kv_array_storage(c), KV_DEFAULT);
    kv_array_unref(b);
    CHECK_OK(kv_array_to_sparse(&b, c, &e)); /* row 2 is zero, minus zero too */
    check_ids(b, 2, (int64_t[]){1, 4});
    CHECK_OK(kv_array_copy(b, a, &e));
    check_ids(b, 3, (int64_t[]){1, 2, 4});
    CHECK_OK(kv_array_copy(b, b, &e));
    check(b, 10, all);
    CHECK_OK(kv_array_copy(b, c, &e));
    check_ids(b, 2, (int64_t[]){1, 4});
    CHECK_OK(kv_array_copy(c, b, &e));
    check(c, 10, (double[]){0, 0, 1, 2, 0, 0, 0, 0, 5.5, 6});
    kv_array_unref(c);
    CHECK_OK(kv_array_dup(&c, a, KV_INT8, cpu0, &e));
    check(c, 10, (double[]){0, 0, 1, 2, 0, 0, 0, 0, 5, 6});
    kv_array_unref(c);
    CHECK_OK(kv_array_new(&c, KV_INT8, 2, (int64_t[]){5, 3}, cpu0, &e));
    CHECK_ERR(kv_array_copy(c, a, &e), KV_E_SHAPE,
              "an array of shape (5, 2) cannot be copied into one of (5, 3)");
    kv_array_unref(c);
    CHECK_OK(kv_array_new(&c, KV_INT8, 0, NULL, cpu0, &e));
    kv_array *none = NULL;
    CHECK_CODE(kv_array_to_sparse(&none, c, &e), KV_E_SHAPE);
}

/* A long row whose only number stands behind the first block that is looked at; nan is a number. */
TEST(sparse_finds_rows)
{
    own_array *a = MADE(kv_array, kv_array_new, KV_FLOAT32, 2, (int64_t[]){3, 1500}, cpu0);
    float *data = array_data(a);
    data[1499] = 1;
    data[3000] = NAN;
    own_array *s = MADE(kv_array, kv_array_to_sparse, a);
    check_ids(s, 2, (int64_t[]){0, 2});
}

TEST(sparse_copy_out_of_memory)
{
    own_array *a = rows(1, (int64_t[]){1}, (double[]){1, 2}, KV_FLOAT32);
    own_array *b = rows(1, (int64_t[]){3}, (double[]){3, 4}, KV_FLOAT32);
    for (int i = 1; i <= 3; i++) {
        CHECK_INT(WITHOUT_MEMORY(i, kv_array_copy(a, b, &e)), KV_E_MEMORY);
        check_ids(a, 1, (int64_t[]){1});
        check(a, 10, (double[]){0, 0, 1, 2, 0, 0, 0, 0, 0, 0});
    }
}

/* The sum of n arrays has these rows, and these elements. */
static void check_sum(kv_array *const *v, int n, kv_dtype dtype, int nids, const int64_t *ids,
                      const double *want)
{
    own_array *sum = MADE(kv_array, sparse_sum, v, n, dtype, cpu0);
    check_ids(sum, nids, ids);
    check(sum, 10, want);
}

TEST(sparse_sums)
{
    own_arrays *v[] = {rows(2, (int64_t[]){1, 4}, (double[]){1, 2, -0.0, 6}, KV_FLOAT32),
                     rows(0, NULL, NULL, KV_FLOAT32),
                     rows(2, (int64_t[]){0, 1}, (double[]){10, 20, -1, -2}, KV_FLOAT32),
                     rows(2, (int64_t[]){1, 3}, (double[]){7, 8, 9, 10}, KV_FLOAT64), NULL};
    /* row 1 cancelled and stays; 0 + -0 is 0 */
    check_sum(v, 3, KV_FLOAT32, 3, (int64_t[]){0, 1, 4},
              (double[]){10, 20, 0, 0, 0, 0, 0, 0, 0, 6});
    check_sum(v, 4, KV_FLOAT32, 4, (int64_t[]){0, 1, 3, 4},
              (double[]){10, 20, 7, 8, 0, 0, 9, 10, 0, 6});
    /* one is copied, minus zero too */
    check_sum(v, 1, KV_FLOAT32, 2, (int64_t[]){1, 4}, (double[]){0, 0, 1, 2, 0, 0, 0, 0, -0.0, 6});
    check_sum(v + 1, 1, KV_FLOAT32, 0, NULL, (double[10]){0});
    kv_array *sum = NULL;
    for (int i = 1; i <= 8; i++)
        CHECK_INT(WITHOUT_MEMORY(i, sparse_sum(&sum, v, 4, KV_FLOAT32, cpu0, &e)), KV_E_MEMORY);
}

/* 2048 + 1 + 1 in float16: rounded after each addition it would stay 2048. */
TEST(sparse_sums_of_halves_round_once)
{
    own_arrays *v[] = {rows(1, (int64_t[]){2}, (double[]){2048, 1}, KV_FLOAT16),
                       rows(1, (int64_t[]){2}, (double[]){1, 1}, KV_FLOAT16),
                       rows(1, (int64_t[]){2}, (double[]){1, 1}, KV_FLOAT16), NULL};
    check_sum(v, 3, KV_FLOAT16, 1, (int64_t[]){2}, (double[]){0, 0, 0, 0, 2050, 3, 0, 0, 0, 0});
}

/* Many sources with rows here and there, against the sum of the dense ones. */
TEST(sparse_sums_many)
{
    enum { N = 37, ROWS = 50 };
    own_array *sum = NULL;
    own_arrays *v[N + 1] = {NULL};
    double want[ROWS] = {0};
    bool held[ROWS] = {false};
    uint32_t r = 1;
    for (int i = 0; i < N; i++) {
        int64_t ids[ROWS], n = 0;
        for (int64_t k = 0; k < ROWS - 1; k++)
            if ((r = r * 1664525 + 1013904223) >> 28 == 0)
                ids[n++] = k;
        CHECK_OK(kv_array_new_sparse(&v[i], KV_INT32, 1, (int64_t[]){ROWS}, n, ids, cpu0, &e));
        int32_t *data = row_data(v[i]);
        for (int64_t k = 0; k < n; k++) {
            data[k] = i + 1;
            want[ids[k]] += i + 1;
            held[ids[k]] = true;
        }
    }
    CHECK_OK(sparse_sum(&sum, v, N, KV_INT32, cpu0, &e));
    check(sum, ROWS, want);
    int64_t n = 0;
    for (int64_t k = 0; k < ROWS; k++)
        if (held[k])
            CHECK_INT(kv_array_row_ids(sum)[n++], k);
    CHECK_INT(kv_array_nrows(sum), n);
}

TEST(sparse_is_refused)
{
    static const char text[] = "a row_sparse array of shape (5, 2) does not hold all its elements";
    kv_array *a = rows(1, (int64_t[]){1}, (double[]){1, 2}, KV_FLOAT32), *out = NULL;
    const void *data = NULL;
    void *write = NULL;
    own_buf b = {0};
    print_style style = print_style_default();
    own_array *dense = MADE(kv_array, kv_array_to_dense, a);
    CHECK_ERR(kv_array_read(a, &data, &e), KV_E_UNSUPPORTED, text);
    CHECK_ERR(kv_array_write(a, &write, &e), KV_E_UNSUPPORTED, text);
    CHECK_ERR(kv_array_view(&out, a, 1, (int64_t[]){10}, &e), KV_E_UNSUPPORTED,
              "a row_sparse array of shape (5, 2) keeps its shape");
    CHECK_CODE(kv_array_read_rows(dense, &data, &e), KV_E_UNSUPPORTED);
    CHECK_ERR(kv_array_write_rows(dense, &write, &e), KV_E_UNSUPPORTED,
              "an array of shape (5, 2) is not row_sparse, it holds all its rows");
    CHECK_OK(kv_array_read_rows(a, &data, &e));
    kv_array_ref(a);
    CHECK_ERR(kv_array_write_rows(a, &write, &e), KV_E_VALUE,
              "an array can be written by its only holder; this one has 2");
    kv_array_unref(a);
    CHECK_ERR(reduce_array(&out, a, REDUCE_SUM, NULL, 0, NULL, &e), KV_E_UNSUPPORTED, text);
    CHECK_ERR(array_slice(&out, a, NULL, 0, &e), KV_E_UNSUPPORTED, text);
    CHECK_ERR(array_assign_slice(a, NULL, 0, dense, &e), KV_E_UNSUPPORTED, text);
    CHECK_ERR(arrange_transpose(&out, a, NULL, 0, &e), KV_E_UNSUPPORTED, text);
    CHECK_ERR(arrange_concat(&out, &a, 1, 0, KV_FLOAT32, &e), KV_E_UNSUPPORTED, text);
    CHECK_ERR(csv_write_array(&b, a, &e), KV_E_UNSUPPORTED, text);
    CHECK_ERR(print_array(&b, a, &style, &e), KV_E_UNSUPPORTED, text);
    FILE *f = tmpfile();
    CHECK(f != NULL);
    CHECK_ERR(npy_write(f, "x.npy", a, &e), KV_E_UNSUPPORTED, text);
    safetensors_item item = {"x", a};
    CHECK_ERR(safetensors_write(f, "x", &item, 1, NULL, 0, &e), KV_E_UNSUPPORTED, text);
    fclose(f);
    kv_array_unref(a);
}
