/* Arrays: shapes, counts, views, wrapped memory, contexts. */
#include "array/device.h"

#include "test_array.h"

TEST(array_new_is_zero)
{
    own_array *a = NULL;
    CHECK_OK(kv_array_new(&a, KV_INT64, 2, (int64_t[]){3, 5}, (kv_ctx){KV_CPU, 7}, &e));
    CHECK_INT(kv_array_size(a), 15);
    CHECK_INT(kv_array_bytes(a), 120);
    CHECK_INT(kv_array_ndim(a), 2);
    CHECK_INT(kv_array_shape(a)[1], 5);
    CHECK_INT(kv_array_ctx(a).id, 7);
    CHECK_INT(kv_array_refs(a), 1);
    const int64_t *data = array_elements(a);
    for (int i = 0; i < 15; i++)
        CHECK_INT(data[i], 0);
    kv_array_unref(NULL);
}

TEST(array_shapes)
{
    kv_array *a = MADE(kv_array, kv_array_new, KV_FLOAT32, 0, NULL, cpu0);
    CHECK_INT(kv_array_size(a), 1);
    kv_array_unref(a);
    CHECK_OK(kv_array_new(&a, KV_FLOAT32, 3, (int64_t[]){4, 0, INT64_MAX}, cpu0, &e));
    CHECK_INT(kv_array_size(a), 0);
    kv_array_unref(a);
    int64_t many[33] = {0};
    CHECK_ERR(kv_array_new(&a, KV_FLOAT32, 33, many, cpu0, &e), KV_E_SHAPE,
              "an array has 0 to 32 axes, not 33");
    CHECK_ERR(kv_array_new(&a, KV_FLOAT32, 2, (int64_t[]){2, -1}, cpu0, &e), KV_E_SHAPE,
              "a shape has no negative sizes, as in (2, -1)");
    CHECK_ERR(
        kv_array_new(&a, KV_FLOAT32, 2, (int64_t[]){INT64_C(1) << 40, INT64_C(1) << 40}, cpu0, &e),
        KV_E_SHAPE,
        "shape (1099511627776, 1099511627776) of float32 is too large: more than 2^63 bytes");
    CHECK_ERR(kv_array_new(&a, KV_FLOAT64, 1, (int64_t[]){INT64_C(1) << 60}, cpu0, &e), KV_E_SHAPE,
              "shape (1152921504606846976,) of float64 is too large: more than 2^63 bytes");
    CHECK_ERR(kv_array_new(&a, (kv_dtype)9, 0, NULL, cpu0, &e), KV_E_DTYPE,
              "9 is not the number of a dtype");
}

TEST(array_shape_text)
{
    char text[24];
    CHECK_TEXT(kv_shape_text(text, sizeof text, 0, NULL), "()");
    CHECK_TEXT(kv_shape_text(text, sizeof text, 1, (int64_t[]){4}), "(4,)");
    CHECK_TEXT(kv_shape_text(text, sizeof text, 2, (int64_t[]){2, 3}), "(2, 3)");
    CHECK_TEXT(kv_shape_text(text, sizeof text, 3, (int64_t[]){1000000, 1000000, 1000000}),
               "(1000000, 1000000, ...)");
}

TEST(array_dtypes)
{
    kv_dtype d = KV_FLOAT32;
#define CHECK_DTYPE(constant, number, name, bytes)                                                 \
    CHECK_OK(kv_dtype_parse(&d, name, &e));                                                        \
    CHECK_INT(d, number);                                                                          \
    CHECK_TEXT(kv_dtype_name(d), name);                                                            \
    CHECK_INT(kv_dtype_bytes(d), bytes);
    KV_DTYPE_MAP(CHECK_DTYPE)
    CHECK_OK(kv_dtype_parse(&d, "bf16", &e));
    CHECK_INT(d, KV_BFLOAT16);
    CHECK_OK(kv_dtype_parse(&d, "I64", &e));
    CHECK_INT(d, KV_INT64);
    CHECK_ERR(kv_dtype_parse(&d, "float", &e), KV_E_DTYPE, "there is no dtype \"float\"");
    static const char *const others[] = {"torch.float16", "np.half"};
    for (int i = 0; i < 2; i++) {
        kv_err why = {0};
        CHECK_INT(kv_dtype_parse(&d, others[i], &why), KV_E_DTYPE);
        CHECK_TEXT(why.hint, "did you mean float16?");
    }
    CHECK(kv_dtype_is_float(KV_BFLOAT16));
    CHECK(!kv_dtype_is_float(KV_BOOL));
}

TEST(array_contexts)
{
    own_array *a = NULL;
    char text[KV_CTX_TEXT];
    CHECK_TEXT(kv_ctx_text(text, (kv_ctx){KV_GPU, KV_CTX_MAX}), "gpu(65535)");
    CHECK_ERR(
        kv_array_new(&a, KV_INT8, 0, NULL, (kv_ctx){KV_GPU, 0}, &e), KV_E_UNSUPPORTED,
        "there is no gpu(0): GPUs need the CUDA plugin, which the static library cannot load");
    CHECK_CODE(kv_array_new(&a, KV_INT8, 0, NULL, (kv_ctx){KV_CPU, 65536}, &e), KV_E_VALUE);
    CHECK_ERR(kv_array_new(&a, KV_INT8, 0, NULL, (kv_ctx){2, 0}, &e), KV_E_VALUE,
              "2 is not a kind of device: 0 is cpu, 1 is gpu");
    dev_set_virtual_gpus(2);
    CHECK_OK(kv_array_new(&a, KV_INT8, 0, NULL, (kv_ctx){KV_GPU, 1}, &e));
    CHECK_ERR(kv_array_new(&a, KV_INT8, 0, NULL, (kv_ctx){KV_GPU, 2}, &e), KV_E_UNSUPPORTED,
              "there is no gpu(2): the virtual GPUs end at gpu(1)");
    dev_set_virtual_gpus(0);
}

TEST(a_table_of_gpus_that_cannot_be_used_is_refused)
{
    gpu_ops table = {.size = sizeof table, .version = GPU_TABLE_VERSION + 1, .count = 1};
    char text[200];
    snprintf(text, sizeof text,
             "the table of GPUs has version %u and %zu bytes, this library takes version %u and "
             "%zu bytes",
             GPU_TABLE_VERSION + 1, sizeof table, GPU_TABLE_VERSION, sizeof table);
    CHECK_ERR(gpu_register(&table, &e), KV_E_VALUE, text);
    table.version = GPU_TABLE_VERSION;
    table.count = GPU_MOST + 1;
    CHECK_ERR(gpu_register(&table, &e), KV_E_VALUE,
              "the table of GPUs has 65 of them, this library takes 1 to 64");
    table.count = 0;
    CHECK_ERR(gpu_register(&table, &e), KV_E_VALUE,
              "the table of GPUs has 0 of them, this library takes 1 to 64");
    CHECK(!gpu_is_there());
}

TEST(array_write_needs_the_only_reference)
{
    void *data = NULL;
    kv_array *a = array_vector(KV_FLOAT32, 2, (double[]){1, 2}), *view = NULL;
    kv_array *again = kv_array_ref(a);
    CHECK_CODE(kv_array_write(a, &data, &e), KV_E_VALUE);
    kv_array_unref(again);
    CHECK_OK(kv_array_write(a, &data, &e));
    CHECK_OK(kv_array_view(&view, a, 2, (int64_t[]){1, 2}, &e));
    CHECK_CODE(kv_array_write(a, &data, &e), KV_E_VALUE);
    CHECK_CODE(kv_array_write(view, &data, &e), KV_E_VALUE);
    kv_array_unref(a);
    CHECK_OK(kv_array_write(view, &data, &e));
    kv_array_unref(view);
}

TEST(array_view_shares_memory)
{
    kv_array *a = array_vector(KV_FLOAT32, 6, (double[]){0, 1, 2, 3, 4, 5}), *v = NULL, *w = NULL;
    CHECK_OK(kv_array_view(&v, a, 2, (int64_t[]){2, 3}, &e));
    CHECK_OK(kv_array_view(&w, v, 2, (int64_t[]){3, 2}, &e));
    CHECK(array_var(w) == array_var(a));
    CHECK_ERR(kv_array_view(&v, a, 2, (int64_t[]){2, 4}, &e), KV_E_SHAPE,
              "an array of shape (6,) cannot have the shape (2, 4)");
    kv_array_unref(a);
    kv_array_unref(v);
    const float *data = array_elements(w);
    CHECK(data[5] == 5);
    kv_array_unref(w);
}

static void count(void *arg)
{
    ++*(int *)arg;
}

TEST(array_wrap_tells_when_it_is_done)
{
    float x[3] = {1, 2, 3};
    int done = 0;
    kv_array *a = NULL, *v = NULL;
    CHECK_OK(kv_array_wrap(&a, x, KV_FLOAT32, 1, (int64_t[]){3}, cpu0, count, &done, &e));
    CHECK_OK(kv_array_view(&v, a, 2, (int64_t[]){3, 1}, &e));
    kv_array_unref(a);
    CHECK_INT(done, 0);
    kv_array_unref(v);
    CHECK_INT(done, 1);
}

TEST(array_copy_and_dup)
{
    own_array *a = array_vector(KV_FLOAT32, 3, (double[]){-1.5, 300, 2.5}), *b = NULL, *c = NULL;
    CHECK_OK(kv_array_dup(&b, a, KV_INT8, (kv_ctx){KV_CPU, 3}, &e));
    CHECK_INT(kv_array_ctx(b).id, 3);
    CHECK(memcmp(array_elements(b), "\xFF\x7F", 2) == 0); /* -1 and 127 */
    CHECK_OK(kv_array_copy(a, b, &e));
    CHECK(((const float *)array_elements(a))[1] == 127);
    CHECK_OK(kv_array_copy(a, a, &e));
    CHECK_OK(kv_array_new(&c, KV_FLOAT32, 2, (int64_t[]){3, 1}, cpu0, &e));
    CHECK_ERR(kv_array_copy(c, a, &e), KV_E_SHAPE,
              "an array of shape (3,) cannot be copied into one of (3, 1)");
}

/* Elements up to 1 KB lie behind their header, aligned as others. */
TEST(array_elements_behind_the_header)
{
    static const int64_t ones[KV_MAX_NDIM] = {1, 1, 1, 1};
    for (int64_t n = 0; n < 300; n++) {
        int64_t shape[KV_MAX_NDIM];
        int ndim = 1 + (int)(n % 4);
        own_array *a = NULL, *b = NULL;
        void *data;
        memcpy(shape, ones, sizeof shape);
        shape[ndim - 1] = n;
        CHECK(kv_array_new(&a, KV_FLOAT32, ndim, shape, cpu0, NULL) == KV_OK);
        CHECK(kv_array_new(&b, KV_FLOAT32, ndim, shape, cpu0, NULL) == KV_OK);
        CHECK(kv_array_write(a, &data, NULL) == KV_OK);
        CHECK((uintptr_t)data % MEM_ALIGN == 0);
        memset(data, 1, (size_t)n * 4);
        array_swap(a, b);
        CHECK(kv_array_shape(a)[ndim - 1] == n && kv_array_shape(b)[ndim - 1] == n);
        for (int64_t i = 0; i < n * 4; i++)
            CHECK(((char *)a->data)[i] == 0 && ((char *)b->data)[i] == 1);
    }
}

TEST(array_out_of_memory)
{
    own_array *small = NULL, *large = NULL;
    CHECK_INT(FAILURES(kv_array_new(&small, KV_FLOAT32, 1, (int64_t[]){8}, cpu0, &e)), 1);
    CHECK_INT(FAILURES(kv_array_new(&large, KV_FLOAT32, 1, (int64_t[]){257}, cpu0, &e)), 2);
}

/* Their elements lie where the header of another array says which rows it holds. */
TEST(array_of_few_elements_holds_no_row_ids)
{
    for (int64_t n = 0; n < 40; n++) {
        own_array *a = MADE(kv_array, kv_array_new, KV_INT64, 1, &n, (kv_ctx){KV_CPU, 0});
        int64_t *data = array_data(a);
        for (int64_t i = 0; i < n; i++)
            data[i] = 7 + i;
        CHECK_INT(kv_array_nrows(a), 0);
        CHECK(!kv_array_row_ids(a));
        CHECK_INT(kv_array_shape(a)[0], n);
        CHECK_INT(kv_array_bytes(a), n * 8);
    }
}
