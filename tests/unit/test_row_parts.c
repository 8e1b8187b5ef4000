/* row_parts: row_sparse keys in the files of stores: back as they were, damaged, read by others. */

#include "array/kv_array.h"
#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "kvstore.h"
#include "store_help.h"
#include "test_io.h"

#define FILE_NAME "w.kvs"

/* n rows of an array of shape (5, 2); element j of the k-th is x[k] + j. */
static kv_array *rows(kv_dtype dtype, int n, const int64_t *ids, const double *x)
{
    kv_array *a = NULL;
    CHECK_OK(kv_array_new_sparse(&a, dtype, 2, (int64_t[]){5, 2}, n, ids, (kv_ctx){0}, &e));
    void *data = row_data(a);
    for (int i = 0; i < 2 * n; i++)
        CHECK_INT(scalar_set(dtype, data, i, x[i / 2] + i % 2), SCALAR_FITS);
    return a;
}

/* Key holds what a holds, row by row; gives a back. */
static void check(kv *s, kv_key key, kv_array *a)
{
    own_array *out = NULL;
    const void *x, *y;
    kv_info info = info_of(s, key);
    CHECK(info.storage == KV_ROW_SPARSE && info.dtype == kv_array_dtype(a));
    CHECK_OK(
        kv_array_new_sparse(&out, info.dtype, info.ndim, info.shape, 0, NULL, (kv_ctx){0}, &e));
    CHECK(kv_array_same_shape(a, out));
    CHECK_OK(kv_pull(s, &key, 1, &out, &(kv_call){.flags = KV_FILL_SPARSE}, &e));
    CHECK_INT(kv_array_nrows(out), kv_array_nrows(a));
    CHECK(memcmp(kv_array_row_ids(out), kv_array_row_ids(a),
                 (size_t)kv_array_nrows(a) * sizeof(int64_t)) == 0);
    CHECK_OK(kv_array_read_rows(out, &x, &e));
    CHECK_OK(kv_array_read_rows(a, &y, &e));
    int64_t bytes = kv_array_bytes(a) - kv_array_nrows(a) * (int64_t)sizeof(int64_t);
    CHECK(memcmp(x, y, (size_t)bytes) == 0);
    kv_array_unref(a);
}

static const int64_t two_ids[] = {1, 4};
static const double two_rows[] = {0, 1};

TEST(row_parts_any_shape)
{
    static const struct {
        int ndim;
        int64_t shape[3], n, ids[3];
    } cases[] = {
        {1, {4}, 2, {0, 3}}, {2, {4, 3}, 0, {0}},    {3, {4, 2, 2}, 3, {0, 1, 3}},
        {2, {0, 3}, 0, {0}}, {2, {4, 0}, 2, {1, 2}}, {2, {(int64_t)1 << 40, 1}, 1, {99}},
        {2, {1, 1}, 1, {0}},
    };
    enum { N = sizeof cases / sizeof *cases };
    kv_array *a[N];
    IN_FOLDER(FILE_NAME, "states.safetensors");
    own_kv *s = make("local");
    for (int i = 0; i < N; i++) {
        CHECK_OK(kv_array_new_sparse(&a[i], KV_FLOAT32, cases[i].ndim, cases[i].shape, cases[i].n,
                                     cases[i].ids, (kv_ctx){0}, &e));
        init_with(s, (kv_key){-i, NULL}, kv_array_ref(a[i]));
    }
    s = save_and_load(s, FILE_NAME);
    for (int i = 0; i < N; i++)
        check(s, (kv_key){-i, NULL}, a[i]);
}

/* Text keys keep their order, whatever they are called; dense ones stand beside them. */
TEST(row_parts_text_keys)
{
    static const char *const names[] = {"w", "b/data", "a", "__x", "w/row_ids", "", "b"};
    IN_FOLDER(FILE_NAME, "states.safetensors");
    own_kv *s = make("local");
    for (int i = 0; i < 7; i++) {
        kv_array *d = NULL;
        if (i == 2)
            CHECK_OK(kv_array_new(&d, KV_FLOAT32, 1, (int64_t[]){3}, (kv_ctx){0}, &e));
        init_with(s, (kv_key){0, names[i]}, d ? d : rows(KV_FLOAT32, 2, two_ids, (double[]){i, 2}));
    }
    s = save_and_load(s, FILE_NAME);
    CHECK_INT(kv_num_keys(s), 7);
    for (int i = 0; i < 7; i++) {
        kv_info info;
        CHECK_OK(kv_info_at(s, i, &info, &e));
        CHECK_TEXT(info.key.name, names[i]);
        if (i != 2)
            check(s, info.key, rows(KV_FLOAT32, 2, two_ids, (double[]){i, 2}));
    }
}

/* Other tools find the rows and their ids by name. */
TEST(row_parts_names)
{
    own_array *ids = NULL, *data = NULL;
    IN_FOLDER(FILE_NAME, "states.safetensors");
    kv *s = make("local");
    init_with(s, (kv_key){3, NULL}, rows(KV_FLOAT32, 2, two_ids, (double[]){6, 8}));
    kv_free(save_and_load(s, FILE_NAME));
    own_checkpoint *f = MADE(checkpoint, checkpoint_open, FILE_NAME, NULL);
    CHECK_INT(checkpoint_count(f), 2);
    CHECK_TEXT(checkpoint_metadata(f, "kvstore.rows.3"), "5");
    CHECK_OK(checkpoint_load_name(&ids, f, "__rows__/3/row_ids", &e));
    CHECK_OK(checkpoint_load_name(&data, f, "__rows__/3/data", &e));
    own_array *want = io_array(KV_INT64, 1, (int64_t[]){2}, (double[]){1, 4});
    CHECK(io_same(ids, want));
    kv_array_unref(want);
    want = io_array(KV_FLOAT32, 2, (int64_t[]){2, 2}, (double[]){6, 7, 8, 9});
    CHECK(io_same(data, want));
}

/* A store may go on while its file is written, which holds references. */
TEST(row_parts_nothing_is_held_afterwards)
{
    kv_key key = {3, NULL};
    IN_FOLDER(FILE_NAME, "states.safetensors");
    own_kv *s = make("local");
    own_array *a = rows(KV_FLOAT32, 2, two_ids, two_rows);
    init_with(s, key, kv_array_ref(a));
    CHECK_OK(kv_save(s, FILE_NAME, &e));
    CHECK_OK(kv_set_optimizer(s, "sgd", NULL, 0, &e));
    CHECK_OK(kv_push(s, &key, 1, &a, NULL, &e));
    CHECK_OK(kv_save(s, FILE_NAME, &e));
}

/* ---- Files that are wrong ---- */

/* A file of the key 3 of shape (5, 2) with rows 1 and 4, one tensor or text being another one; NULL
 * leaves it out. */
static void write_file(const char *ids_name, kv_array *ids, const char *data_name, kv_array *data,
                       const char *rows_name, const char *nrows)
{
    checkpoint_text pairs[] = {
        {"kvstore.format", "1"}, {"kvstore.type", "local"}, {"kvstore.key_type", "integer"},
        {"kvstore.pushes", "0"}, {"kvstore.updates", "0"},  {"kvstore.updater", "assign"},
        {rows_name, nrows},
    };
    safetensors_item items[2];
    file_out out;
    int n = 0;
    if (ids_name)
        items[n++] = (safetensors_item){ids_name, ids};
    if (data_name)
        items[n++] = (safetensors_item){data_name, data};
    CHECK_OK(file_out_open(&out, FILE_NAME, &e));
    CHECK_OK(safetensors_write(out.f, FILE_NAME, items, n, pairs, nrows ? 7 : 6, &e));
    CHECK_OK(file_out_commit(&out, &e));
}

static kv_array *ids_of(kv_dtype dtype, double first, double second)
{
    return io_array(dtype, 1, (int64_t[]){2}, (double[]){first, second});
}

#define IDS    "__rows__/3/row_ids"
#define DATA   "__rows__/3/data"
#define NUMBER "kvstore.rows.3"

#define NO_COUNT "\"" NUMBER "\" is not a number of rows"
#define OTHERS   "\"" IDS "\" has 2 ids, its data another number of rows"
#define NO_IDS   "the tensor \"" IDS "\" is not a list of row ids"

TEST(row_parts_wrong_files)
{
    own_arrays *all[] = {ids_of(KV_INT64, 1, 4),
                         ids_of(KV_FLOAT32, 6, 7),
                         io_array(KV_FLOAT32, 2, (int64_t[]){3, 1}, (double[]){1, 2, 3}),
                         io_array(KV_FLOAT32, 0, NULL, (double[]){1}),
                         io_array(KV_INT64, 2, (int64_t[]){2, 1}, (double[]){1, 4}),
                         ids_of(KV_INT32, 1, 4),
                         ids_of(KV_INT64, 4, 1),
                         ids_of(KV_INT64, 1, 5),
                         ids_of(KV_INT64, -1, 4),
                         ids_of(KV_INT64, 4, 4),
                         NULL};
    enum { GOOD, VALUES, THREE, SCALAR, SQUARE, NARROW, DOWN, BEYOND, BELOW, TWICE };
    static const struct {
        const char *ids_name;
        int ids;
        const char *data_name;
        int data;
        const char *rows_name, *nrows, *want; /* NULL: it is right */
    } cases[] = {
        {IDS, GOOD, DATA, VALUES, NUMBER, "5", NULL},
        {IDS, GOOD, NULL, 0, NUMBER, "5", "the tensor \"" IDS "\" has no data beside it"},
        {NULL, 0, DATA, VALUES, NUMBER, "5", "it has rows without their ids"},
        {IDS, GOOD, DATA, VALUES, NUMBER, NULL, "the metadata have no \"" NUMBER "\""},
        {"3", VALUES, NULL, 0, NUMBER, "5", "it says how many rows keys have that are not there"},
        {IDS, GOOD, DATA, VALUES, NUMBER, "-5", NO_COUNT},
        {IDS, GOOD, DATA, VALUES, NUMBER, "five", NO_COUNT},
        {IDS, GOOD, DATA, VALUES, NUMBER, "", NO_COUNT},
        {IDS, GOOD, DATA, VALUES, NUMBER, "99999999999999999999", NO_COUNT},
        {IDS, GOOD, DATA, THREE, NUMBER, "5", OTHERS},
        {IDS, GOOD, DATA, SCALAR, NUMBER, "5", OTHERS},
        {IDS, SQUARE, DATA, VALUES, NUMBER, "5", NO_IDS},
        {IDS, NARROW, DATA, VALUES, NUMBER, "5", NO_IDS},
        {IDS, DOWN, DATA, VALUES, NUMBER, "5",
         "\"" IDS "\": row ids ascend and none stands twice: not 4, 1"},
        {IDS, BEYOND, DATA, VALUES, NUMBER, "5",
         "\"" IDS "\": an array of shape (5,) has no row 5"},
        {IDS, BELOW, DATA, VALUES, NUMBER, "5",
         "\"" IDS "\": an array of shape (5,) has no row -1"},
        {IDS, TWICE, DATA, VALUES, NUMBER, "5",
         "\"" IDS "\": row ids ascend and none stands twice: not 4, 4"},
        {IDS, GOOD, DATA, VALUES, NUMBER, "9223372036854775807",
         "\"" IDS "\": shape (9223372036854775807,) of float32 is too large: more than 2^63 bytes"},
        {"__rows__/x/row_ids", GOOD, "__rows__/x/data", VALUES, "kvstore.rows.x", "5",
         "the tensor \"x\" is not an integer key"},
        {"__rows__/3", GOOD, NULL, 0, NULL, NULL,
         "the tensor \"__rows__/3\" is not an integer key"},
    };
    IN_FOLDER(FILE_NAME, "states.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[200];
        write_file(cases[i].ids_name, all[cases[i].ids], cases[i].data_name, all[cases[i].data],
                   cases[i].rows_name, cases[i].nrows);
        snprintf(want, sizeof want, FILE_NAME ": %s", cases[i].want);
        if (cases[i].want)
            check_load_fails(FILE_NAME, KV_E_FORMAT, want);
        else
            kv_free(MADE(kv, kv_load, FILE_NAME));
    }
}
