/* Arrangements: shapes, orders, joins, repetitions; what two dtypes make. */
#include "array/arrange.h"

#include "test_array.h"

/* 0, 1, 2, … */
static kv_array *counting(kv_dtype dtype, int ndim, const int64_t *shape)
{
    return ARRAY_OF(dtype, ndim, shape, cpu0, i);
}

/* What sessions numpy-functions and functions-arrays do not show: the errors, and results without
 * elements. */
TEST(arrange_refuses)
{
    own_array *a = counting(KV_INT8, 2, (int64_t[]){2, 3}), *r = NULL;
    own_array *cube = counting(KV_FLOAT16, 3, (int64_t[]){2, 1, 3});
    own_array *row = counting(KV_INT32, 1, (int64_t[]){3}),
              *four = counting(KV_INT32, 1, (int64_t[]){4});
    own_array *column = counting(KV_INT32, 2, (int64_t[]){2, 1}),
              *scalar = counting(KV_INT8, 0, NULL);
    own_array *none = counting(KV_FLOAT32, 1, (int64_t[]){0});
    int ndim;
    int64_t shape[KV_MAX_NDIM];
    static const struct {
        int64_t shape[2];
        const char *text;
    } shapes[] = {
        {{4, 2}, "an array of shape (2, 3) cannot have the shape (4, 2)"},
        {{-1, 4}, "an array of shape (2, 3) cannot have the shape (-1, 4)"},
        {{-1, -1}, "only one size of a shape can be -1"},
        {{-2, -3}, "an array of shape (2, 3) cannot have the shape (-2, -3)"},
        {{INT64_MAX, 2}, "an array of shape (2, 3) cannot have the shape (9223372036854775807, 2)"},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        CHECK_ERR(arrange_reshape(&r, a, 2, shapes[i].shape, &e), KV_E_SHAPE, shapes[i].text);
    CHECK_CODE(arrange_reshape(&r, none, 0, NULL, &e), KV_E_SHAPE);
    CHECK_ERR(arrange_transpose(&r, cube, (int64_t[]){0, 1}, 2, &e), KV_E_SHAPE,
              "a transpose names every axis once: 2 of 3 are named");
    CHECK_CODE(arrange_transpose(&r, cube, (int64_t[]){0, 1, -2}, 3, &e), KV_E_VALUE);
    CHECK_CODE(arrange_transpose(&r, cube, (int64_t[]){0, 1, 3}, 3, &e), KV_E_INDEX);
    CHECK_ERR(arrange_broadcast(&r, row, 1, (int64_t[]){4}, &e), KV_E_SHAPE,
              "an array of shape (3,) does not broadcast to (4,)");
    CHECK_CODE(arrange_broadcast(&r, column, 1, (int64_t[]){2}, &e), KV_E_SHAPE);
    CHECK_CODE(arrange_common(&ndim, shape, row, four, &e), KV_E_SHAPE);
    CHECK_CODE(arrange_concat(&r, (kv_array *[]){a, column}, 2, 0, KV_INT8, &e), KV_E_SHAPE);
    CHECK_ERR(arrange_stack(&r, (kv_array *[]){a, column}, 2, 0, KV_INT8, &e), KV_E_SHAPE,
              "arrays of one shape can be stacked, not (2, 3) and (2, 1)");
    CHECK_CODE(arrange_stack(&r, (kv_array *[]){a, scalar}, 2, 0, KV_INT8, &e), KV_E_SHAPE);
    CHECK_ERR(arrange_concat(&r, (kv_array *[]){scalar}, 1, 0, KV_INT8, &e), KV_E_SHAPE,
              "arrays without axes cannot be joined along one; stack() makes a new one");
    CHECK_CODE(arrange_concat(&r, (kv_array *[]){a}, 1, 2, KV_INT8, &e), KV_E_INDEX);
    CHECK_ERR(arrange_repeat(&r, a, -1, 0, &e), KV_E_VALUE,
              "an array is repeated 0 times or more, not -1");
    CHECK_ERR(arrange_tile(&r, a, (int64_t[]){INT64_MAX}, 1, &e), KV_E_SHAPE,
              "the repeated array is too large");
    CHECK(!r);
}

/* Shapes whose sizes have no product, because one of them is 0. */
TEST(arrange_huge_and_empty)
{
    const int64_t shape[3] = {INT64_MAX, 0, INT64_MAX};
    own_array *a = MADE(kv_array, kv_array_new, KV_FLOAT32, 3, shape, cpu0);
    kv_array *r = MADE(kv_array, arrange_transpose, a, NULL, 0);
    CHECK_INT(kv_array_size(r), 0);
    kv_array_unref(r);
    CHECK_OK(arrange_stack(&r, (kv_array *[]){a, a}, 2, 0, KV_FLOAT32, &e));
    CHECK_INT(kv_array_size(r), 0);
    kv_array_unref(r);
    CHECK_OK(arrange_tile(&r, a, (int64_t[]){3, 1}, 2, &e));
    CHECK_INT(kv_array_size(r), 0);
    kv_array_unref(r);
    CHECK_ERR(arrange_concat(&r, (kv_array *[]){a, a}, 2, 0, KV_FLOAT32, &e), KV_E_SHAPE,
              "the joined arrays are too large");
}

TEST(promote_pairs)
{
    static const struct {
        kv_dtype a, b, want;
    } cases[] = {
        {KV_BOOL, KV_BOOL, KV_BOOL},           {KV_BOOL, KV_UINT8, KV_UINT8},
        {KV_UINT8, KV_INT8, KV_INT32},         {KV_INT8, KV_INT32, KV_INT32},
        {KV_INT64, KV_FLOAT16, KV_FLOAT16},    {KV_BFLOAT16, KV_INT32, KV_BFLOAT16},
        {KV_FLOAT16, KV_BFLOAT16, KV_FLOAT32}, {KV_FLOAT16, KV_FLOAT32, KV_FLOAT32},
        {KV_INT64, KV_FLOAT64, KV_FLOAT64},    {KV_FLOAT32, KV_FLOAT64, KV_FLOAT64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_INT(promote_dtypes(cases[i].a, cases[i].b), cases[i].want);
        CHECK_INT(promote_dtypes(cases[i].b, cases[i].a), cases[i].want);
    }
}
