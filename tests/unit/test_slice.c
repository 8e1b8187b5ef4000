/* Parts of arrays, read and written; layouts. */
#include "array/slice.h"

#include "array/arrange.h"
#include "test_array.h"

/* 0, 1, 2, … as int32. */
static kv_array *counting(int ndim, const int64_t *shape)
{
    return ARRAY_OF(KV_INT32, ndim, shape, cpu0, i);
}

static void check_ints(kv_array *a, int n, const int32_t *want)
{
    CHECK_INT(kv_array_size(a), n);
    const int32_t *data = array_elements(a);
    for (int i = 0; i < n; i++)
        CHECK_INT(data[i], want[i]);
}

/* A part of a has this shape, as a text, and these elements. */
static void check_part(kv_array *a, const array_range *at, int naxes, const char *shape, int n,
                       const int32_t *want)
{
    char text[64];
    own_array *part = MADE(kv_array, array_slice, a, at, naxes);
    CHECK_TEXT(kv_shape_text(text, sizeof text, kv_array_ndim(part), kv_array_shape(part)), shape);
    check_ints(part, n, want);
}

#define INDEX(i)                                                                                   \
    {                                                                                              \
        .is_index = true, .index = (i)                                                             \
    }
TEST(slice_spans)
{
    /* from, to, step, len; then from, n as Python's range(*slice(from, to, step).indices(len)) has
     */
    static const int64_t cases[][6] = {
        {0, 3, 1, 5, 0, 3},                         {-2, 9, 1, 5, 3, 2},
        {4, 1, -1, 5, 4, 3},                        {9, -9, -2, 5, 4, 3},
        {3, 3, 1, 5, 3, 0},                         {3, 3, 2, 5, 3, 0},
        {3, 3, -2, 5, 3, 0},                        {-9, 2, 1, 5, 0, 2},
        {0, 5, 7, 5, 0, 1},                         {5, 0, 1, 5, 5, 0},
        {0, 0, -1, 0, -1, 0},                       {INT64_MIN, INT64_MAX, INT64_MAX, 5, 0, 1},
        {INT64_MAX, INT64_MIN, INT64_MIN, 5, 4, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t *c = cases[i];
        array_range r = {.has_from = true, .has_to = true, .from = c[0], .to = c[1], .step = c[2]};
        array_span span = array_range_span(&r, c[3]);
        CHECK_INT(span.n, c[5]);
        if (span.n)
            CHECK_INT(span.from, c[4]);
    }
    array_range all = {0}, back = {.step = -1};
    CHECK_INT(array_range_span(&all, 4).n, 4);
    CHECK_INT(array_range_span(&back, 4).from, 3);
    CHECK_INT(array_range_span(&back, 4).n, 4);
}

TEST(slice_errors)
{
    kv_array *a = counting(2, (int64_t[]){3, 4}), *part = NULL;
    own_array *scalar = counting(0, NULL);
    array_range far = INDEX(5), low[] = {{0}, INDEX(-5)}, three[] = {{0}, {0}, {0}};
    CHECK_CODE(array_slice(&part, a, &far, 1, &e), KV_E_INDEX);
    CHECK_ERR(array_slice(&part, a, low, 2, &e), KV_E_INDEX,
              "index -5 is out of range: axis 1 has 4");
    CHECK_CODE(array_slice(&part, a, three, 3, &e), KV_E_INDEX);
    CHECK_ERR(array_slice(&part, scalar, three, 1, &e), KV_E_INDEX,
              "1 index for an array with 0 axes");
    own_array *pair = counting(1, (int64_t[]){2});
    CHECK_ERR(array_assign_slice(a, three, 1, pair, &e), KV_E_SHAPE,
              "a value of shape (2,) does not fit a part of shape (3, 4)");
    kv_array_ref(a);
    CHECK_CODE(array_assign_slice(a, three, 1, scalar, &e), KV_E_VALUE);
    kv_array_unref(a);
    kv_array_unref(a);
}

/* A transpose of every size around that of a tile, for elements of each width. */
TEST(strided_transposes)
{
    for (int64_t bytes = 1; bytes <= 8; bytes *= 2) {
        for (int64_t n = 31; n <= 33; n++) {
            int64_t m = 2 * n + 1, rows[2], columns[2] = {1, n};
            own_mem unsigned char *src = mem_alloc(n * m, (size_t)bytes, &e);
            own_mem unsigned char *dst = mem_alloc(n * m, (size_t)bytes, &e);
            for (int64_t i = 0; i < n * m * bytes; i++)
                src[i] = (unsigned char)(i * 7 % 251);
            strided_rows(rows, 2, (int64_t[]){n, m});
            CHECK(strided_copy(dst, columns, src, rows, 2, (int64_t[]){n, m}, bytes, false));
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < m; j++)
                    CHECK(!memcmp(dst + (j * n + i) * bytes, src + (i * m + j) * bytes,
                                  (size_t)bytes));
            CHECK(strided_copy(src, rows, dst, columns, 2, (int64_t[]){n, m}, bytes, false));
            for (int64_t i = 0; i < n * m * bytes; i++)
                CHECK_INT(src[i], i * 7 % 251);
        }
    }
}

/* Ids pair up, masks count, and of ids that are there twice the last is written. */
TEST(slice_ids)
{
    kv_array *a = counting(2, (int64_t[]){3, 4}), *part = NULL, *ids = counting(1, (int64_t[]){2});
    own_array *mask = NULL, *pair = counting(1, (int64_t[]){2});
    array_range rows[] = {{.ids = ids}}, columns[] = {{0}, {.ids = ids}};
    array_range both[] = {{.ids = ids}, {.ids = pair}};
    array_range apart[] = {{.ids = ids}, {.is_new = true}, INDEX(3)};
    void *data = array_data(ids);
    memcpy(data, (int32_t[]){-1, 0}, 8);
    check_part(a, rows, 1, "(2, 4)", 8, (int32_t[]){8, 9, 10, 11, 0, 1, 2, 3});
    check_part(a, columns, 2, "(3, 2)", 6, (int32_t[]){3, 0, 7, 4, 11, 8});
    check_part(a, both, 2, "(2,)", 2, (int32_t[]){8, 1});
    check_part(a, apart, 3, "(2, 1)", 2, (int32_t[]){11, 3});
    CHECK_OK(kv_array_dup(&mask, a, KV_BOOL, cpu0, &e));
    array_range all = {.ids = mask};
    memcpy(data, (int32_t[]){0, 0}, 8);
    CHECK_OK(array_assign_slice(a, columns, 2, pair, &e));
    check_ints(a, 12, (int32_t[]){1, 1, 2, 3, 1, 5, 6, 7, 1, 9, 10, 11});
    check_part(a, &all, 1, "(11,)", 11, (int32_t[]){1, 2, 3, 1, 5, 6, 7, 1, 9, 10, 11});
    memcpy(data, (int32_t[]){2, 3}, 8);
    CHECK_ERR(array_slice(&part, a, rows, 1, &e), KV_E_INDEX,
              "index 3 is out of range: axis 0 has 3");
    CHECK_CODE(array_slice(&part, ids, &all, 1, &e), KV_E_INDEX);
    kv_array_unref(mask);
    CHECK_OK(kv_array_new(&mask, KV_BOOL, 0, NULL, cpu0, &e));
    all.ids = mask;
    CHECK_ERR(array_slice(&part, a, &all, 1, &e), KV_E_DTYPE,
              "a mask has a bool for each element of an axis");
    kv_array_unref(a);
    kv_array_unref(ids);
}
