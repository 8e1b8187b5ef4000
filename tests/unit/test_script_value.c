/* Dynamic values: sharing, kinds, printing, and what they are as arrays. */
#include "session/value.h"

#include <math.h>

#include "test.h"

static value text(const char *t)
{
    value v = value_none();
    CHECK_OK(value_text_new(&v, t, strlen(t), &e));
    return v;
}

/* A list or tuple that takes its items. */
static value items(value_kind kind, int n, const value *v)
{
    value list = value_none();
    CHECK_OK(value_list_new(&list, kind, n, &e));
    for (int i = 0; i < n; i++)
        list.u.list->items[i] = v[i];
    return list;
}

#define LIST(n, ...)  items(VALUE_LIST, n, (value[]){__VA_ARGS__})
#define TUPLE(n, ...) items(VALUE_TUPLE, n, (value[]){__VA_ARGS__})

static value array(kv_dtype dtype, int ndim, const int64_t *shape, kv_ctx ctx)
{
    kv_array *a = MADE(kv_array, kv_array_new, dtype, ndim, shape, ctx);
    value v;
    CHECK_OK(value_array(&v, a, &e));
    return v;
}

TEST(value_sharing)
{
    value t = text("abc"), list = LIST(2, value_ref(t), value_int(1));
    value again = value_ref(list);
    CHECK(list.u.list->items[0].u.text == t.u.text);
    CHECK_INT(list.u.list->refs, 2);
    value_release(&list);
    CHECK_INT(again.u.list->n, 2);
    value_release(&again);
    CHECK_TEXT(t.u.text, "abc");
    value_release(&t);
    value_release(&t);
}

/* Releasing must not use the stack for each level. */
TEST(value_deep_lists)
{
    OWN(value_release) value v = LIST(1, value_int(1));
    for (int i = 0; i < 300000; i++)
        v = LIST(1, v);
    CHECK(!value_is_numbers(v));
    buf b = {0};
    value_print(&b, v, false);
    CHECK_INT(b.len, 100 + 5 + 100);
    buf_release(&b);
    kv_array *a = NULL;
    CHECK_ERR(value_to_array(&a, v, &e), KV_E_SHAPE,
              "an array has at most 32 axes; these lists are deeper");
}

TEST(value_kinds)
{
    OWN(value_release) value numbers = LIST(2, value_int(1), LIST(1, value_float(2)));
    OWN(value_release)
    value mixed = LIST(2, value_int(1), text("a")), none = items(VALUE_LIST, 0, NULL);
    OWN(value_release) value tuple = TUPLE(1, value_int(1)), hi = text("hi");
    CHECK(value_is_numbers(numbers));
    CHECK(!value_is_numbers(mixed) && !value_is_numbers(none) && value_is_numbers(tuple));
    CHECK(value_is_several(mixed) && value_is_several(none) && !value_is_several(tuple));
    CHECK(!value_is_several(hi));
    CHECK(value_is_sequence(tuple) && value_is_sequence(none) && !value_is_sequence(hi));
    CHECK(value_is_scalar(hi) && value_is_scalar(value_none()) && !value_is_scalar(tuple));
    CHECK(value_is_number(value_bool(false)) && !value_is_number(hi));
    CHECK_TEXT(value_kind_name(numbers), "a list");
    CHECK_TEXT(value_kind_name(value_int(1)), "an integer");
    CHECK_TEXT(value_kind_name(value_ctx((kv_ctx){0})), "a context");
    CHECK(value_number(value_bool(true)) == 1 && value_number(value_float(0.5)) == 0.5);
    OWN(value_release) value back = value_none();
    CHECK_OK(value_from_host(&back, value_host(hi), &e));
    CHECK_TEXT(back.u.text, "hi");
    CHECK_INT(value_host(value_bool(true)).kind, HOST_BOOL);
    CHECK_ERR(value_text_new(&back, "a\0b", 3, &e), KV_E_VALUE,
              "a text cannot hold a NUL character");
}

/* The array of v, which is released, as float64. */
static kv_array *to_array(value v, kv_dtype want)
{
    kv_array *a = MADE(kv_array, value_to_array, v);
    CHECK_INT(kv_array_dtype(a), want);
    kv_array *wide = MADE(kv_array, kv_array_dup, a, KV_FLOAT64, (kv_ctx){0});
    kv_array_unref(a);
    value_release(&v);
    return wide;
}

static void check_shape(value v, kv_dtype want, const char *shape)
{
    char text[64];
    own_array *a = to_array(v, want);
    CHECK_TEXT(kv_shape_text(text, sizeof text, kv_array_ndim(a), kv_array_shape(a)), shape);
}

TEST(value_arrays_of_numbers)
{
    own_array *a = to_array(LIST(2, LIST(2, value_float(0.1), value_int(16777216)),
                                TUPLE(2, value_bool(true), value_float(NAN))),
                           KV_FLOAT32);
    CHECK_INT(kv_array_ndim(a), 2);
    const double *x = array_elements(a);
    CHECK(x[0] == (double)0.1f && x[1] == 16777216 && x[2] == 1 && isnan(x[3]));
    check_shape(LIST(2, array(KV_INT8, 0, NULL, (kv_ctx){0}), value_int(1)), KV_FLOAT32, "(2,)");
    check_shape(value_int(7), KV_FLOAT32, "()");
    check_shape(items(VALUE_LIST, 0, NULL), KV_FLOAT32, "(0,)");
    check_shape(array(KV_INT8, 1, (int64_t[]){3}, (kv_ctx){0}), KV_INT8, "(3,)");
}

static void check_no_array(value v, kv_code code, const char *want)
{
    kv_array *a = NULL;
    CHECK_ERR(value_to_array(&a, v, &e), code, want);
    value_release(&v);
}

TEST(value_no_arrays)
{
    check_no_array(LIST(2, LIST(1, value_int(1)), LIST(2, value_int(1), value_int(2))), KV_E_SHAPE,
                   "the lists have unequal lengths: 1 and 2 along axis 1");
    check_no_array(LIST(2, LIST(1, value_int(1)), value_int(1)), KV_E_SHAPE,
                   "a list holds both numbers and lists, so it is not an array");
    check_no_array(LIST(2, value_int(1), LIST(1, value_int(1))), KV_E_SHAPE,
                   "a list holds both numbers and lists, so it is not an array");
}

TEST(value_puts_numbers)
{
    int8_t i8 = 0;
    uint8_t u8 = 0;
    int64_t i64 = 0;
    float f = 0;
    uint16_t h = 0;
    CHECK_OK(value_put_number(&i8, KV_INT8, value_int(-128), &e));
    CHECK_INT(i8, -128);
    CHECK_OK(value_put_number(&i8, KV_INT8, value_float(300.7), &e));
    CHECK_INT(i8, 127);
    CHECK_ERR(value_put_number(&i8, KV_INT8, value_int(128), &e), KV_E_VALUE,
              "128 does not fit into int8: it holds -128 to 127");
    CHECK_CODE(value_put_number(&u8, KV_UINT8, value_int(-1), &e), KV_E_VALUE);
    CHECK_OK(value_put_number(&i64, KV_INT64, value_int(INT64_MAX), &e));
    CHECK_INT(i64, INT64_MAX);
    CHECK_OK(value_put_number(&u8, KV_BOOL, value_int(300), &e));
    CHECK_INT(u8, 1);
    CHECK_OK(value_put_number(&f, KV_FLOAT32, value_float(INFINITY), &e));
    CHECK(isinf(f));
    CHECK_OK(value_put_number(&h, KV_FLOAT16, value_int(65504), &e));
    CHECK_INT(h, 0x7bff);
    CHECK_ERR(value_put_number(&h, KV_FLOAT16, value_int(65520), &e), KV_E_VALUE,
              "65520 does not fit into float16");
}

TEST(value_items)
{
    value v = value_none(), one = array(KV_INT64, 2, (int64_t[]){1, 1}, (kv_ctx){0});
    OWN(value_release) value bit = array(KV_BOOL, 0, NULL, (kv_ctx){0});
    OWN(value_release) value two = array(KV_FLOAT32, 1, (int64_t[]){2}, (kv_ctx){0});
    int64_t *data = array_data(one.u.box->array);
    *data = INT64_MIN;
    CHECK_OK(value_item(&v, one, &e));
    CHECK(v.kind == VALUE_INT && v.u.integer == INT64_MIN);
    CHECK_OK(value_item(&v, bit, &e));
    CHECK(v.kind == VALUE_BOOL && v.u.integer == 0);
    CHECK_OK(value_item(&v, value_float(2.5), &e));
    CHECK(v.kind == VALUE_FLOAT && v.u.number == 2.5);
    CHECK_ERR(value_item(&v, two, &e), KV_E_DTYPE, "an array of shape (2,) is not a number");
    CHECK_ERR(value_item(&v, value_none(), &e), KV_E_DTYPE, "none is not a number");
    value_release(&one);
}

TEST(value_arrays_are_objects)
{
    value v = array(KV_FLOAT32, 1, (int64_t[]){2}, (kv_ctx){0}), other = value_ref(v), number;
    kv_array *stored = kv_array_ref(v.u.box->array), *more = NULL;
    CHECK(other.u.box == v.u.box);
    CHECK_OK(value_own(v, &e)); /* what a store holds is not written */
    CHECK(other.u.box->array != stored && kv_array_refs(stored) == 1);
    const kv_array *own = v.u.box->array;
    CHECK_OK(value_own(other, &e)); /* they are the object's already */
    CHECK(v.u.box->array == own);
    CHECK_OK(kv_array_new(&more, KV_FLOAT32, 0, NULL, (kv_ctx){0}, &e));
    value_replace(v, kv_array_ref(more));
    CHECK(other.u.box->array == more);
    CHECK(!v.u.box->is_number);
    CHECK_OK(value_result(&number, more, &e));
    CHECK(number.u.box->is_number && number.u.box->refs == 1);
    kv_array_unref(stored);
    value_release(&v);
    CHECK_INT(other.u.box->refs, 1);
    value_release(&other);
    value_release(&number);
}

TEST(value_without_memory)
{
    value v = value_none(), list = LIST(2, value_int(1), value_int(2));
    kv_array *a = NULL;
    mem_fail_at(1);
    CHECK_CODE(value_text_new(&v, "a", 1, &e), KV_E_MEMORY);
    CHECK_CODE(value_list_new(&v, VALUE_LIST, 3, &e), KV_E_MEMORY);
    CHECK_INT(value_to_array(&a, list, &e), KV_E_MEMORY);
    mem_fail_at(0);
    CHECK_OK(kv_array_new(&a, KV_INT8, 0, NULL, (kv_ctx){0}, &(kv_err){0}));
    kv_array_ref(a);
    mem_fail_at(1);
    e = (kv_err){0};
    CHECK_INT(value_array(&v, a, &e), KV_E_MEMORY);
    mem_fail_at(0);
    CHECK_INT(kv_array_refs(a), 1); /* it was taken all the same */
    kv_array_unref(a);
    CHECK_INT(value_list_new(&v, VALUE_LIST, INT64_MAX / 8, &(kv_err){0}), KV_E_MEMORY);
    value_release(&list);
}
