/* Pulls of and into row_sparse arrays: rows by id, sparse outs of kv_pull, row ids. */
#include <math.h>

#include "array/sparse.h"
#include "kvstore.h"
#include "sparse_help.h"

static const kv_key key = {3, NULL};

static kv_array *ids(int n, const double *x)
{
    return array_vector(KV_INT64, n, x);
}

static kv_array *dense(void)
{
    return MADE(kv_array, kv_array_new, KV_FLOAT32, 2, (int64_t[]){5, 2}, cpu0);
}

/* Pulls rows of key 3 into an array that held other rows; gives the ids back. */
static kv_array *pulled(kv *s, kv_array *which)
{
    kv_array *out = rows("0=8 4=9");
    CHECK_OK(kv_row_sparse_pull(s, &key, 1, &which, &out, NULL, &e));
    kv_array_unref(which);
    return out;
}

static void check_pulled(kv *s, kv_array *which, const char *want)
{
    own_array *out = pulled(s, which);
    check_rows(out, want);
}

/* A store whose key 3 holds first, which is given back. */
static kv *open_store(const char *type, kv_array *first)
{
    kv *s = make(type);
    init_with(s, key, first);
    return s;
}

TEST(row_pull_ids_of_any_dtype_and_shape)
{
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_FLOAT16, KV_BFLOAT16,
                                      KV_UINT8,   KV_INT8,    KV_INT32,   KV_INT64};
    own_kv *s = open_store("local", rows("1=5 3=6"));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        kv_array *flat = array_vector(dtypes[i], 4, (double[]){3, 1, 1, 0}), *square = NULL;
        CHECK_OK(kv_array_view(&square, flat, 2, (int64_t[]){2, 2}, &e));
        kv_array_unref(flat);
        check_pulled(s, square, "0=0 1=5 3=6");
    }
}

TEST(row_pull_converts_and_crosses_contexts)
{
    CHECK_OK(kv_set_virtual_gpus(2, &e));
    own_kv *s = open_store("device", rows("1=1.5 3=-2.5"));
    kv_array *outs[] = {rows_as(KV_FLOAT64, "", (kv_ctx){KV_GPU, 1}), rows_as(KV_INT8, "", cpu0),
                        rows_as(KV_FLOAT16, "", (kv_ctx){KV_CPU, 3})};
    own_array *which = ids(2, (double[]){3, 1}), *other = ids(1, (double[]){3}), *on_gpu = NULL;
    CHECK_OK(kv_array_dup(&on_gpu, which, KV_INT32, (kv_ctx){KV_GPU, 0}, &e));
    kv_key keys[] = {key, key, key};
    CHECK_OK(kv_row_sparse_pull(s, keys, 3, (kv_array *[]){on_gpu, other, which}, outs, NULL, &e));
    check_rows(outs[0], "1=1.5 3=-2.5");
    check_rows(outs[1], "3=-2");
    check_rows(outs[2], "1=1.5 3=-2.5");
    CHECK_INT(kv_array_ctx(outs[0]).device, KV_GPU);
    for (int i = 0; i < 3; i++)
        kv_array_unref(outs[i]);
}

/* Several keys in one call, text keys, holders of other references; the pulled array is no part of
 * the store. */
TEST(row_pull_of_several_keys)
{
    kv_key keys[] = {{0, "b"}, {0, "a"}, {0, "b"}};
    kv_array *values[] = {rows("2=2"), rows("1=7")};
    own_arrays *outs[] = {rows(""), rows(""), rows(""), NULL};
    own_array *which = ids(2, (double[]){2, 1});
    kv_array *all[] = {which, which, which};
    own_array *held = kv_array_ref(outs[1]);
    own_kv *s = make("local");
    CHECK_OK(kv_init(s, keys, 2, values, NULL, &e));
    CHECK_OK(kv_row_sparse_pull(s, keys, 3, all, outs, NULL, &e));
    check_rows(outs[0], "1=0 2=2");
    check_rows(held, "1=7 2=0");
    check_rows(outs[2], "1=0 2=2");
    memset(row_data(outs[0]), 0, 16);
    CHECK_OK(kv_row_sparse_pull(s, keys, 1, &which, outs, &(kv_call){.priority = -3}, &e));
    check_rows(outs[0], "1=0 2=2");
    CHECK_OK(kv_row_sparse_pull(s, NULL, 0, NULL, NULL, NULL, &e));
    kv_array_unref(values[0]);
    kv_array_unref(values[1]);
}

/* Row id of key 3 in the test below. */
static float row_value(int64_t id, bool full)
{
    return full || id % 3 ? (float)(id % 4093) : 0;
}

/* Three outs of one key, whose memory serves again when the rows are as many as before, and two of
 * which stand in one array: from a key that holds every row, and from one that lacks some. */
static void pull_again(bool full)
{
    enum { N = 120000, ROW = 16, EVERY = 2, HELD = N / EVERY };
    kv_err e = {0};
    kv_array *first, *which, *outs[3], *other;
    void *data;
    const int64_t shape[] = {N, ROW}, one[] = {HELD};
    const kv_key keys[] = {key, key, key};
    int64_t *list = mem_alloc(N, sizeof *list, &e), held = 0;
    for (int64_t i = 0; i < N; i++)
        if (full || i % 3)
            list[held++] = i;
    CHECK_OK(kv_array_new_sparse(&first, KV_FLOAT32, 2, shape, held, list, cpu0, &e));
    CHECK_OK(kv_array_write_rows(first, &data, &e));
    for (int64_t k = 0; k < held * ROW; k++)
        ((float *)data)[k] = row_value(list[k / ROW], full);
    CHECK_OK(kv_array_new_raw(&which, KV_INT64, 1, one, cpu0, &e));
    CHECK_OK(kv_array_new_sparse(&outs[0], KV_FLOAT32, 2, shape, 0, NULL, cpu0, &e));
    CHECK_OK(kv_array_new_sparse(&other, KV_FLOAT32, 2, shape, 5, list, cpu0, &e));
    outs[1] = outs[2] = other;
    own_kv *s = make("local");
    CHECK_OK(kv_init(s, &key, 1, &first, NULL, &e));
    for (int round = 0; round < 3; round++) {
        CHECK_OK(kv_array_write(which, &data, &e));
        for (int64_t i = 0; i < HELD; i++)
            ((int64_t *)data)[i] = (round == 1 ? HELD - 1 - i : i) * EVERY + round % EVERY;
        CHECK_OK(kv_row_sparse_pull(s, keys, 3, (kv_array *[]){which, which, which}, outs, NULL,
                                    &e));
        for (int o = 0; o < 2; o++) {
            CHECK_INT(kv_array_nrows(outs[o]), HELD);
            const float *got = row_elements(outs[o]);
            for (int64_t k = 0; k < HELD; k++) {
                int64_t id = k * EVERY + round % EVERY;
                CHECK_INT(kv_array_row_ids(outs[o])[k], id);
                for (int j = 0; j < ROW; j++)
                    CHECK(got[k * ROW + j] == row_value(id, full));
            }
        }
    }
    mem_free(list);
    kv_array_unref(first);
    kv_array_unref(which);
    kv_array_unref(outs[0]);
    kv_array_unref(other);
}

TEST(row_pull_again)
{
    pull_again(true);
    pull_again(false);
}

TEST(row_pull_ids_beyond_32_bits)
{
    const int64_t n = (int64_t)1 << 40, shape[] = {n, 1}, far[] = {5, n - 1};
    own_array *first = NULL, *out = NULL, *which = ids(3, (double[]){(double)n - 1, 7, 5});
    CHECK_OK(kv_array_new_sparse(&first, KV_FLOAT32, 2, shape, 2, far, cpu0, &e));
    void *to = row_data(first);
    memcpy(to, (float[]){1, 2}, 8);
    CHECK_OK(kv_array_new_sparse(&out, KV_FLOAT32, 2, shape, 0, NULL, cpu0, &e));
    own_kv *s = make("local");
    CHECK_OK(kv_init(s, &key, 1, &first, NULL, &e));
    CHECK_OK(kv_row_sparse_pull(s, &key, 1, &which, &out, NULL, &e));
    CHECK_INT(kv_array_nrows(out), 3);
    CHECK(kv_array_row_ids(out)[0] == 5 && kv_array_row_ids(out)[2] == n - 1);
    CHECK(memcmp(row_elements(out), (float[]){1, 0, 2}, 12) == 0);
    kv_array_unref(which);
    which = ids(1, (double[]){(double)n});
    CHECK_ERR(kv_row_sparse_pull(s, &key, 1, &which, &out, NULL, &e), KV_E_INDEX,
              "key 3 has no row 1099511627776, they go from 0 to 1099511627775");
}

/* After every error the array is as it was, also where only the second triple is wrong. */
static void refused(kv *s, kv_key k, kv_array *which, kv_array *out, kv_code code, const char *text)
{
    kv_err e = {0};
    own_array *good = ids(1, (double[]){1}), *kept = rows("4=9");
    kv_key keys[] = {key, k};
    int rc = kv_row_sparse_pull(s, keys, 2, (kv_array *[]){good, which}, (kv_array *[]){kept, out},
                                NULL, &e);
    CHECK_FAILED(rc, code, text);
    check_rows(kept, "4=9");
    kv_array_unref(which);
    kv_array_unref(out);
}

TEST(row_pull_errors)
{
    own_kv *s = open_store("local", rows("1=5"));
    kv_key four = {4, NULL}, text = {0, "w"};
    kv_array *d = dense(), *other = NULL;
    CHECK_OK(kv_init(s, &four, 1, &d, NULL, &e));
    CHECK_OK(kv_array_new_sparse(&other, KV_FLOAT32, 2, (int64_t[]){5, 3}, 0, NULL, cpu0, &e));
#define OUT rows("")
    refused(s, key, ids(2, (double[]){0, 5}), OUT, KV_E_INDEX,
            "key 3 has no row 5, they go from 0 to 4");
    refused(s, key, array_vector(KV_FLOAT32, 1, (double[]){INFINITY}), OUT, KV_E_DTYPE,
            "a row id is a whole number, not inf");
    refused(s, four, ids(1, (double[]){0}), OUT, KV_E_VALUE,
            "key 4 is not row_sparse, its rows are not pulled by id");
    refused(s, key, ids(1, (double[]){0}), other, KV_E_SHAPE,
            "key 3 holds (5, 2), this array has shape (5, 3)");
    refused(s, text, ids(1, (double[]){0}), OUT, KV_E_KEY,
            "one call takes keys of one kind, \"w\" is a text key and 3 an integer");
    refused(s, key, ids(1, (double[]){0}), NULL, KV_E_VALUE, "key 3 has no array (NULL)");
    refused(s, key, NULL, OUT, KV_E_VALUE, "key 3 has no array (NULL)");
    own_array *which = ids(1, (double[]){0}), *out = OUT;
    CHECK_CODE(kv_row_sparse_pull(s, &text, 1, &which, &out, NULL, &e), KV_E_KEY);
    CHECK_ERR(kv_row_sparse_pull(s, &key, 1, &which, &out, &(kv_call){.flags = 1}, &e), KV_E_VALUE,
              "this call has no flags 0x1");
    CHECK_CODE(kv_row_sparse_pull(s, &key, -1, &which, &out, NULL, &e), KV_E_VALUE);
    CHECK_CODE(kv_row_sparse_pull(NULL, &key, 1, &which, &out, NULL, &e), KV_E_USAGE);
    kv_array_unref(d);
}

TEST(row_pull_out_of_memory)
{
    own_kv *s = open_store("local", rows("1=5 3=6"));
    own_array *which = ids(3, (double[]){3, 0, 3}), *other = ids(1, (double[]){1});
    kv_key keys[] = {key, key};
    for (int n = 1, rc = KV_E_MEMORY; rc; n++) {
        own_arrays *outs[] = {rows("4=9"), rows(""), NULL};
        rc = WITHOUT_MEMORY(
            n, kv_row_sparse_pull(s, keys, 2, (kv_array *[]){which, other}, outs, NULL, &e));
        check_rows(outs[0], rc ? "4=9" : "0=0 3=6");
        check_rows(outs[1], rc ? "" : "1=5");
    }
}

/* Calls return before they have run, and take effect in program order: what was pulled is pushed
 * again, into an array that other calls still use. */
TEST(row_pull_in_program_order)
{
    enum { ROWS = 4000, WIDTH = 16, ROUNDS = 60 };
    const int64_t shape[] = {ROWS, WIDTH};
    kv_key keys[] = {{3, NULL}, {4, NULL}};
    own_array *one = array_full(KV_FLOAT32, 2, shape, 1, cpu0);
    own_array *first = MADE(kv_array, kv_array_to_sparse, one);
    own_array *which = /* the odd rows, backwards */
        ARRAY_OF(KV_INT32, 1, (int64_t[]){ROWS / 2}, cpu0, ROWS - 1 - 2 * i);
    kv_array *out = MADE(kv_array, kv_array_new_sparse, KV_FLOAT32, 2, shape, 0, NULL, cpu0);
    own_array *all = MADE(kv_array, kv_array_new_sparse, KV_FLOAT32, 2, shape, 0, NULL, cpu0);
    own_kv *s = make("local");
    CHECK_OK(kv_init(s, keys, 2, (kv_array *[]){first, first}, NULL, &e));
    set_rule(s, "{ stored += input }");
    for (int round = 0; round < ROUNDS; round++) {
        CHECK_OK(kv_push(s, &keys[0], 1, &first, NULL, &e));                  /* + 1 */
        CHECK_OK(kv_row_sparse_pull(s, keys, 1, &which, &out, NULL, &e));     /* round + 2 */
        CHECK_OK(kv_push(s, &keys[1], 1, &out, NULL, &e));                    /* the odd rows */
        CHECK_OK(kv_row_sparse_pull(s, &keys[1], 1, &which, &out, NULL, &e)); /* other contents */
    }
    CHECK_OK(kv_pull(s, &keys[1], 1, &all, &(kv_call){.flags = KV_FILL_SPARSE}, &e));
    const float *got = row_elements(all);
    for (int i = 0; i < ROWS * WIDTH; i++)
        CHECK(got[i] == (i / WIDTH % 2 ? 1 + ROUNDS * (ROUNDS + 3) / 2 : 1));
    CHECK_INT(kv_array_nrows(out), ROWS / 2);
    got = row_elements(out);
    CHECK(got[0] == 1 + ROUNDS * (ROUNDS + 3) / 2);
    CHECK_OK(kv_row_sparse_pull(s, keys, 1, &which, &out, NULL, &e));
    kv_array_unref(out); /* the pull that is pending keeps what it needs */
}

/* ---- kv_pull ---- */

static void take_log(void *arg, const char *text)
{
    char *log = arg;
    strcat(strcat(log, text), "\n");
}

#define TOLD                                                                                       \
    " was not pulled into a row_sparse array, which stays as it was; KV_FILL_SPARSE fills "        \
    "it, kv_row_sparse_pull takes rows\n"

/* Row_sparse outs stay as they are; the default ones beside them are written. */
TEST(row_pull_is_not_what_pull_does)
{
    char log[2000] = "";
    own_kv *s = open_store("local", rows("1=5"));
    own_array *two = rows("4=2"), *d = dense();
    kv_key four = {4, NULL}, nine = {9, NULL}, keys[] = {key, four, key};
    kv_array *outs[] = {two, two, d};
    int64_t ignored = -1;
    kv_call how = {.ignored = &ignored};
    CHECK_OK(kv_init(s, &four, 1, &d, NULL, &e));
    kv_set_log(take_log, log);
    CHECK_OK(kv_pull(s, &key, 1, &two, NULL, &e));
    CHECK_TEXT(log, "key 3" TOLD);
    log[0] = '\0';
    CHECK_OK(kv_pull(s, keys, 3, outs, &how, &e));
    CHECK_INT(ignored, 2); /* who is told here reads no log */
    CHECK_TEXT(log, "");
    check_rows(two, "4=2");
    CHECK(memcmp(array_elements(d), (float[10]){0, 0, 5, 5}, 40) == 0);
    CHECK_OK(kv_pull(s, keys, 2, outs, NULL, &e));
    CHECK_TEXT(log, "key 4" TOLD);
    log[0] = '\0';
    CHECK_OK(kv_pull(s, keys, 2, outs, NULL, &e)); /* told once a key */
    CHECK_TEXT(log, "");
    CHECK_OK(kv_pull(s, &key, 1, &d, &how, &e));
    CHECK_INT(ignored, 0);
    ignored = -1;
    CHECK_ERR(kv_pull(s, &nine, 1, &two, &how, &e), KV_E_KEY, "key 9 was never initialised");
    CHECK_CODE(kv_pull(s, &key, 1, &d, &(kv_call){.flags = 4 | KV_FILL_SPARSE}, &e), KV_E_VALUE);
    CHECK_CODE(kv_push(s, &key, 1, &d, &(kv_call){.flags = KV_FILL_SPARSE}, &e), KV_E_VALUE);
    CHECK_INT(ignored, -1);
    kv_set_log(NULL, NULL);
}

/* The log may use the store. */
static void count_keys(void *arg, const char *text)
{
    (void)text;
    *(int64_t *)arg = kv_num_keys(*((kv **)arg + 1));
}

TEST(row_pull_log_runs_without_the_lock)
{
    struct {
        int64_t n;
        kv *s;
    } arg = {-1, open_store("local", rows(""))};
    own_array *out = rows("");
    kv_set_log(count_keys, &arg);
    CHECK_OK(kv_pull(arg.s, &key, 1, &out, NULL, &e));
    kv_set_log(NULL, NULL);
    CHECK_INT(arg.n, 1);
    kv_free(arg.s);
}

TEST(row_pull_fills_sparse_outs)
{
    own_kv *s = open_store("local", rows("1=1.5 3=0"));
    kv_key four = {4, NULL}, keys[] = {key, four, four, key};
    own_array *d = dense();
    kv_array *outs[] = {rows_as(KV_FLOAT64, "4=2", (kv_ctx){KV_CPU, 2}),
                        rows("4=2"), dense(), dense()};
    int64_t ignored = -1;
    kv_call how = {.flags = KV_FILL_SPARSE, .ignored = &ignored};
    memcpy(array_data(d), (float[10]){0, 0, 0, 0, 7, 7}, 40);
    CHECK_OK(kv_init(s, &four, 1, &d, NULL, &e));
    CHECK_OK(kv_pull(s, keys, 4, outs, &how, &e));
    CHECK_INT(ignored, 0);
    check_rows(outs[0], "1=1.5 3=0"); /* a row of zeros that is held stays */
    check_rows(outs[1], "2=7");
    const void *data = array_elements(outs[2]);
    CHECK(memcmp(data, (float[10]){0, 0, 0, 0, 7, 7}, 40) == 0);
    data = array_elements(outs[3]);
    CHECK(memcmp(data, (float[10]){0, 0, 1.5f, 1.5f}, 40) == 0);
    for (int i = 0; i < 4; i++)
        kv_array_unref(outs[i]);
}

TEST(row_pull_fill_out_of_memory)
{
    own_kv *s = open_store("local", rows("1=5 3=6"));
    kv_key keys[] = {key, key};
    for (int n = 1, rc = KV_E_MEMORY; rc; n++) {
        own_arrays *outs[] = {dense(), rows("4=9"), NULL};
        rc = WITHOUT_MEMORY(n, kv_pull(s, keys, 2, outs, &(kv_call){.flags = KV_FILL_SPARSE}, &e));
        const float *data = array_elements(outs[0]);
        CHECK(data[2] == (rc ? 0 : 5));
        check_rows(outs[1], rc ? "4=9" : "1=5 3=6");
    }
}

/* ---- Row ids ---- */

TEST(row_ids_sort_either_way)
{
    for (int dense_ids = 0; dense_ids < 2; dense_ids++) { /* by marks, and by comparing */
        int64_t rows = dense_ids ? 1000 : INT64_MAX, n = 3000, given[3000], seen = 0;
        char there[1000] = {0};
        uint64_t x = 1;
        for (int64_t i = 0; i < n; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            given[i] = (int64_t)(x >> 40) % 1000;
            seen += !there[given[i]];
            there[given[i]] = 1;
        }
        CHECK_INT(row_ids_outside(given, n, rows), -1);
        CHECK_OK(row_ids_sort(given, &n, rows, &e));
        CHECK_INT(n, seen);
        for (int64_t i = 0; i < n; i++)
            CHECK(there[given[i]] && (i == 0 || given[i - 1] < given[i]));
    }
}

TEST(row_ids_ordered_or_not)
{
    CHECK(row_ids_ordered(NULL, 0, 0));
    CHECK(row_ids_ordered((int64_t[]){0, 1, 5, 9}, 4, 10));
    CHECK(row_ids_ordered((int64_t[]){0, INT64_MAX - 1}, 2, INT64_MAX));
    CHECK(!row_ids_ordered((int64_t[]){0, 1, 5, 10}, 4, 10));
    CHECK(!row_ids_ordered((int64_t[]){-1, 1}, 2, 10));
    CHECK(!row_ids_ordered((int64_t[]){1, INT64_MIN}, 2, INT64_MAX));
    CHECK(!row_ids_ordered((int64_t[]){1, 1}, 2, 10));
    CHECK(!row_ids_ordered((int64_t[]){3, 2}, 2, 10));
    CHECK(!row_ids_ordered((int64_t[]){0}, 1, 0));
}

TEST(row_ids_found_from_anywhere)
{
    int64_t list[100];
    for (int64_t i = 0; i < 100; i++)
        list[i] = 3 * i;
    for (int64_t n = 0; n <= 100; n += 9)
        for (int64_t from = 0; from <= n; from++)
            for (int64_t id = from > 0 ? list[from - 1] + 1 : -2; id < 310; id++) {
                int64_t want = id < 0 ? 0 : (id + 2) / 3;
                CHECK_INT(row_ids_find(list, from, n, id), want < n ? want : n);
            }
}

TEST(row_ids_exact_floats)
{
    own_array *a = array_vector(KV_FLOAT32, 3, (double[]){0x1p24, -0.0, 0x1p24 - 1});
    int64_t *read = MADE(int64_t, row_ids_read, a);
    CHECK(read[0] == 1 << 24 && read[1] == 0 && read[2] == (1 << 24) - 1);
    mem_free(read);
    kv_array_unref(a);
    a = array_vector(KV_FLOAT16, 1, (double[]){2050});
    CHECK_ERR(row_ids_read(&read, a, &e), KV_E_DTYPE,
              "the row id 2050 is too large for float16, which is exact up to 2048");
    kv_array_unref(a);
    a = array_vector(KV_BFLOAT16, 1, (double[]){258});
    CHECK_ERR(row_ids_read(&read, a, &e), KV_E_DTYPE,
              "the row id 258 is too large for bfloat16, which is exact up to 256");
}
