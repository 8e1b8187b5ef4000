/* Arrangements: shapes, orders, joins, repetitions; what two dtypes make. */
#include "array/arrange.h"

#include "test_array.h"

/* 0, 1, 2, … */
static kv_array *counting(kv_dtype dtype, int ndim, const int64_t *shape)
{
    return ARRAY_OF(dtype, ndim, shape, cpu0, i);
}

/* Compares shape and elements with text such as "(2, 2) 0 1 2 3", and releases a. */
static void check_text(kv_array *a, const char *want)
{
    char text[512];
    own_array *ints = MADE(kv_array, kv_array_dup, a, KV_INT32, cpu0);
    const int32_t *data = array_elements(ints);
    kv_shape_text(text, sizeof text, kv_array_ndim(a), kv_array_shape(a));
    for (int i = 0; i < (int)kv_array_size(a); i++) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, " %d", data[i]);
    }
    CHECK_TEXT(text, want);
    kv_array_unref(a);
}

#define GIVES(want, make, ...) check_text(MADE(kv_array, make, __VA_ARGS__), want)

TEST(arrange_reshapes)
{
    kv_array *a = counting(KV_INT8, 2, (int64_t[]){2, 3}), *r = NULL;
    CHECK_OK(arrange_reshape(&r, a, 2, (int64_t[]){3, 2}, &e));
    CHECK_INT(kv_array_dtype(r), KV_INT8);
    check_text(r, "(3, 2) 0 1 2 3 4 5");
    GIVES("(6,) 0 1 2 3 4 5", arrange_reshape, a, 1, (int64_t[]){-1});
    GIVES("(2, 3, 1) 0 1 2 3 4 5", arrange_reshape, a, 3, (int64_t[]){2, -1, 1});
    CHECK_ERR(arrange_reshape(&r, a, 2, (int64_t[]){4, 2}, &e), KV_E_SHAPE,
              "an array of shape (2, 3) cannot have the shape (4, 2)");
    CHECK_ERR(arrange_reshape(&r, a, 2, (int64_t[]){-1, 4}, &e), KV_E_SHAPE,
              "an array of shape (2, 3) cannot have the shape (-1, 4)");
    CHECK_ERR(arrange_reshape(&r, a, 2, (int64_t[]){-1, -1}, &e), KV_E_SHAPE,
              "only one size of a shape can be -1");
    CHECK_ERR(arrange_reshape(&r, a, 2, (int64_t[]){-2, -3}, &e), KV_E_SHAPE,
              "an array of shape (2, 3) cannot have the shape (-2, -3)");
    CHECK_ERR(arrange_reshape(&r, a, 2, (int64_t[]){INT64_MAX, 2}, &e), KV_E_SHAPE,
              "an array of shape (2, 3) cannot have the shape (9223372036854775807, 2)");
    kv_array_unref(a);
    a = counting(KV_FLOAT32, 1, (int64_t[]){0});
    GIVES("(0, 5)", arrange_reshape, a, 2, (int64_t[]){0, 5});
    GIVES("(9223372036854775807, 2, 0)", arrange_reshape, a, 3, (int64_t[]){INT64_MAX, 2, 0});
    CHECK_ERR(arrange_reshape(&r, a, 0, NULL, &e), KV_E_SHAPE,
              "an array of shape (0,) cannot have the shape ()");
    kv_array_unref(a);
}

TEST(arrange_transposes)
{
    kv_array *a = counting(KV_FLOAT16, 3, (int64_t[]){2, 1, 3}), *r = NULL;
    GIVES("(3, 1, 2) 0 3 1 4 2 5", arrange_transpose, a, NULL, 0);
    GIVES("(1, 3, 2) 0 3 1 4 2 5", arrange_transpose, a, (int64_t[]){1, -1, 0}, 3);
    GIVES("(1, 2, 3) 0 1 2 3 4 5", arrange_transpose, a, (int64_t[]){1, 0, 2}, 3);
    CHECK_ERR(arrange_transpose(&r, a, (int64_t[]){0, 1}, 2, &e), KV_E_SHAPE,
              "a transpose names every axis once: 2 of 3 are named");
    CHECK_ERR(arrange_transpose(&r, a, (int64_t[]){0, 1, -2}, 3, &e), KV_E_VALUE,
              "a transpose names every axis once: axis 1 is there twice");
    CHECK_CODE(arrange_transpose(&r, a, (int64_t[]){0, 1, 3}, 3, &e), KV_E_INDEX);
    kv_array_unref(a);
    a = counting(KV_INT64, 0, NULL);
    GIVES("() 0", arrange_transpose, a, NULL, 0);
    kv_array_unref(a);
}

TEST(arrange_broadcasts)
{
    kv_array *row = counting(KV_INT32, 1, (int64_t[]){3}), *r = NULL;
    own_array *column = counting(KV_INT32, 2, (int64_t[]){2, 1});
    int ndim;
    int64_t shape[KV_MAX_NDIM];
    CHECK_OK(arrange_common(&ndim, shape, row, column, &e));
    CHECK_INT(ndim, 2);
    CHECK_INT(shape[0], 2);
    CHECK_INT(shape[1], 3);
    GIVES("(2, 3) 0 1 2 0 1 2", arrange_broadcast, row, ndim, shape);
    GIVES("(2, 3) 0 0 0 1 1 1", arrange_broadcast, column, ndim, shape);
    GIVES("(2, 0)", arrange_broadcast, column, 2, (int64_t[]){2, 0});
    CHECK_ERR(arrange_broadcast(&r, row, 1, (int64_t[]){4}, &e), KV_E_SHAPE,
              "an array of shape (3,) does not broadcast to (4,)");
    CHECK_ERR(arrange_broadcast(&r, column, 1, (int64_t[]){2}, &e), KV_E_SHAPE,
              "an array of shape (2, 1) does not broadcast to (2,)");
    own_array *four = counting(KV_INT32, 1, (int64_t[]){4});
    CHECK_ERR(arrange_common(&ndim, shape, row, four, &e), KV_E_SHAPE,
              "shapes (3,) and (4,) do not broadcast together");
    kv_array_unref(row);
}

TEST(arrange_joins)
{
    kv_array *a = counting(KV_INT8, 2, (int64_t[]){2, 2}), *r = NULL;
    own_array *b = counting(KV_FLOAT32, 2, (int64_t[]){2, 1});
    own_array *none = counting(KV_INT32, 2, (int64_t[]){0, 2}),
              *scalar = counting(KV_INT8, 0, NULL);
    CHECK_OK(arrange_concat(&r, (kv_array *[]){a, b, a}, 3, -1, KV_FLOAT32, &e));
    CHECK_INT(kv_array_dtype(r), KV_FLOAT32);
    check_text(r, "(2, 5) 0 1 0 0 1 2 3 1 2 3");
    GIVES("(2, 2) 0 1 2 3", arrange_concat, (kv_array *[]){none, a}, 2, 0, KV_INT8);
    GIVES("(2, 2, 2) 0 1 2 3 0 1 2 3", arrange_stack, (kv_array *[]){a, a}, 2, 0, KV_INT8);
    GIVES("(2, 2, 2) 0 0 1 1 2 2 3 3", arrange_stack, (kv_array *[]){a, a}, 2, -1, KV_INT8);
    GIVES("(2,) 0 0", arrange_stack, (kv_array *[]){scalar, scalar}, 2, 0, KV_INT8);
    CHECK_ERR(arrange_concat(&r, (kv_array *[]){a, b}, 2, 0, KV_INT8, &e), KV_E_SHAPE,
              "arrays of shape (2, 2) and (2, 1) do not join along axis 0");
    CHECK_ERR(arrange_stack(&r, (kv_array *[]){a, b}, 2, 0, KV_INT8, &e), KV_E_SHAPE,
              "arrays of one shape can be stacked, not (2, 2) and (2, 1)");
    CHECK_ERR(arrange_stack(&r, (kv_array *[]){a, scalar}, 2, 0, KV_INT8, &e), KV_E_SHAPE,
              "arrays of one shape can be stacked, not (2, 2) and ()");
    CHECK_ERR(arrange_concat(&r, (kv_array *[]){scalar}, 1, 0, KV_INT8, &e), KV_E_SHAPE,
              "arrays without axes cannot be joined along one; stack() makes a new one");
    CHECK_ERR(arrange_concat(&r, (kv_array *[]){a}, 1, 2, KV_INT8, &e), KV_E_INDEX,
              "axis 2 is out of range: the array has 2 axes");
    kv_array_unref(a);
}

TEST(arrange_repeats)
{
    kv_array *a = counting(KV_INT32, 2, (int64_t[]){2, 2}), *r = NULL;
    GIVES("(4, 2) 0 1 0 1 2 3 2 3", arrange_repeat, a, 2, 0);
    GIVES("(2, 6) 0 0 0 1 1 1 2 2 2 3 3 3", arrange_repeat, a, 3, 1);
    GIVES("(2, 0)", arrange_repeat, a, 0, 1);
    GIVES("(2, 4) 0 1 0 1 2 3 2 3", arrange_tile, a, (int64_t[]){2}, 1);
    GIVES("(2, 2, 4) 0 1 0 1 2 3 2 3 0 1 0 1 2 3 2 3", arrange_tile, a, (int64_t[]){2, 1, 2}, 3);
    GIVES("(2, 2) 0 1 2 3", arrange_tile, a, NULL, 0);
    GIVES("(0, 4)", arrange_tile, a, (int64_t[]){0, 2}, 2);
    CHECK_ERR(arrange_repeat(&r, a, -1, 0, &e), KV_E_VALUE,
              "an array is repeated 0 times or more, not -1");
    CHECK_ERR(arrange_tile(&r, a, (int64_t[]){INT64_MAX}, 1, &e), KV_E_SHAPE,
              "the repeated array is too large");
    kv_array_unref(a);
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
