/* cpu/sum_rows: sums of row_sparse arrays against one element at a time, in many forms. The result
 * is large enough for several threads, and the bits are those of one. */

#include "array/sparse.h"
#include "cpu/cpu.h"
#include "engine/pool.h"
#include "test_io.h"

static const kv_ctx cpu0 = {KV_CPU, 0};

/* The choice of the ids of an array. */
typedef struct form {
    int64_t rows, held, row;
    int nsrc;
    int same; /* so many of the sources have the ids of the first */
} form;

/* About held ids of rows, ascending. */
static int64_t choose_ids(int64_t *ids, const form *f, uint64_t *state)
{
    int64_t n = 0, step = 2 * f->rows / f->held;
    for (int64_t id = 0; n < f->held; n++) {
        id += (int64_t)(io_random(state) % (uint64_t)(step > 1 ? step : 1));
        if (id >= f->rows)
            break;
        ids[n] = id++;
    }
    return n;
}

static kv_array *random_rows(kv_dtype dtype, const form *f, uint64_t *ids_state, uint64_t *state)
{
    kv_err e = {0};
    kv_array *a = NULL, *data;
    own_mem int64_t *ids = mem_alloc(f->held, sizeof *ids, &e);
    int64_t n = choose_ids(ids, f, ids_state), shape[] = {n, f->row};
    data = io_random_array(dtype, 2, shape, state);
    CHECK_OK(kv_array_new_sparse(&a, dtype, 2, (int64_t[]){f->rows, f->row}, n, ids, cpu0, &e));
    memcpy(row_data(a), array_elements(data), (size_t)kv_array_bytes(data));
    kv_array_unref(data);
    return a;
}

/* Row number k of the sum by the sum of dense arrays: zeros, then the sources that hold the row. */
static void check_row(kv_array *sum, int64_t k, kv_array *const *src, int64_t *cursor, int nsrc,
                      char *zeros, char *want)
{
    const void *terms[9] = {zeros};
    int64_t n = 1, row = sparse_row(sum), bytes = row * kv_dtype_bytes(sum->dtype);
    for (int i = 0; i < nsrc; i++)
        if (cursor[i] < src[i]->nrows && src[i]->rows[cursor[i]] == sum->rows[k])
            terms[n++] = (const char *)src[i]->data + cursor[i]++ * bytes;
    CHECK(n > 1);
    sum_elements(want, terms, n, sum->dtype, row);
    if (memcmp((const char *)sum->data + k * bytes, want, (size_t)bytes) == 0)
        return;
    for (int64_t i = 0; i < row; i++) { /* nan may have any payload */
        double got = scalar_float(sum->dtype, (const char *)sum->data + k * bytes, i);
        CHECK(isnan(got) && isnan(scalar_float(sum->dtype, want, i)));
    }
}

static void check_sum(kv_dtype dtype, const form *f, uint64_t *state)
{
    kv_err e = {0};
    kv_array *src[8], *sum = NULL;
    int64_t cursor[8] = {0};
    uint64_t first = *state + 1;
    for (int i = 0; i < f->nsrc; i++) {
        uint64_t same = first;
        src[i] = random_rows(dtype, f, i < f->same ? &same : state, state);
    }
    CHECK_OK(sparse_sum(&sum, src, f->nsrc, dtype, cpu0, &e));
    own_text *zeros = mem_zalloc(f->row, 8, &e), *want = mem_alloc(f->row, 8, &e);
    for (int64_t k = 0; k < sum->nrows; k++) {
        CHECK(k == 0 || sum->rows[k - 1] < sum->rows[k]);
        check_row(sum, k, src, cursor, f->nsrc, zeros, want);
    }
    for (int i = 0; i < f->nsrc; i++) {
        CHECK_INT(cursor[i], src[i]->nrows);
        kv_array_unref(src[i]);
    }
    kv_array_unref(sum);
}

TEST(sum_rows_every_dtype)
{
    static const form forms[] = {
        {1000, 300, 3, 3, 0},   {1000, 990, 16, 2, 0}, {50, 20, 33, 8, 0},
        {5, 5, 5000, 3, 0},     {40, 9, 4096, 2, 0},   {(int64_t)1 << 40, 500, 2, 3, 0},
        {200000, 300, 1, 4, 0}, {3, 1, 1, 2, 0},
    };
    uint64_t state = 7;
    for (int d = 0; d < NDTYPES; d++)
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
            check_sum(all_dtypes[d], &forms[i], &state);
}

TEST(sum_rows_in_several_parts)
{
    static const form forms[] = {
        {400000, 30000, 16, 3, 0}, {1 << 30, 20000, 16, 2, 0}, {3000, 600, 1000, 2, 0},
        {400000, 390000, 1, 3, 0}, {8, 6, 270000, 2, 0},
    };
    uint64_t state = 9;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        check_sum(KV_FLOAT32, &forms[i], &state);
        check_sum(KV_FLOAT16, &forms[i], &state);
    }
}

/* Sources with the same ids are added without looking rows up, and windows of ids that all sources
 * share are copied; with others among them, and a result that goes past the caches. */
TEST(sum_rows_of_the_same_ids)
{
    static const form forms[] = {
        {200000, 70001, 16, 3, 2}, {40000, 39000, 31, 4, 4}, {1 << 16, 1 << 15, 3, 3, 3},
        {9, 9, 5000, 2, 2},        {600, 500, 2500, 2, 2},
    };
    uint64_t state = 11;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        check_sum(KV_FLOAT32, &forms[i], &state);
        check_sum(KV_FLOAT16, &forms[i], &state);
        check_sum(KV_INT8, &forms[i], &state);
        check_sum(KV_BOOL, &forms[i], &state);
    }
}

/* ---- Rows by number ---- */

/* Rows beside the same ones converted one by one, bit by bit. */
static void check_gather(kv_dtype to, kv_dtype from, int64_t row, int64_t offset, bool far)
{
    enum { ROWS = 97, N = 203 };
    uint64_t state = 5;
    int64_t at[N], wide = row * kv_dtype_bytes(to), bytes = row * kv_dtype_bytes(from);
    kv_array *src = io_random_array(from, 2, (int64_t[]){ROWS, row}, &state);
    kv_err e = {0};
    char *block = mem_alloc_data(N * wide + 64, &e), *want = mem_alloc(wide, 1, &e);
    char *got = block + offset;
    for (int64_t k = 0; k < N; k++)
        at[k] = k % 40 < 9 ? k % 40 : (int64_t)(io_random(&state) % (ROWS + 1)) - 1;
    memset(block, 77, (size_t)(N * wide + 64));
    gather_rows(got, to, src->data, from, at, N - 7, 7, row, far);
    gather_rows((char *)got + (N - 7) * row * kv_dtype_bytes(to), to, src->data, from, at + N - 7,
                7, 0, row, false);
    for (int64_t k = 0; k < N; k++) {
        memset(want, 0, (size_t)wide);
        if (at[k] >= 0)
            convert_elements(want, to, (const char *)src->data + at[k] * bytes, from, row);
        CHECK(memcmp(got + k * wide, want, (size_t)wide) == 0);
    }
    for (int64_t i = 0; i < 64; i++)
        CHECK(block[i < offset ? i : N * wide + i] == 77);
    kv_array_unref(src);
    mem_free_data(block);
    mem_free(want);
}

TEST(gather_rows_every_dtype)
{
    static const int64_t lengths[] = {1, 3, 16, 32, 65, 1000};
    for (int d = 0; d < NDTYPES; d++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (int far = 0; far < 2; far++) {
                check_gather(all_dtypes[d], all_dtypes[d], lengths[i], far ? 0 : 8, far);
                check_gather(all_dtypes[d], all_dtypes[d], lengths[i], 8, far);
                check_gather(KV_FLOAT32, all_dtypes[d], lengths[i], 0, far);
            }
}

/* As many ids and the same last one, but another one in the middle. */
TEST(sum_rows_of_ids_that_look_alike)
{
    enum { N = 300000, MIDDLE = N / 2 };
    own_array *sum = NULL;
    own_arrays *src[3] = {NULL};
    own_mem int64_t *ids = mem_alloc(N, sizeof *ids, &e);
    for (int i = 0; i < 2; i++) {
        for (int64_t k = 0; k < N; k++)
            ids[k] = 2 * k + (i == 1 && k == MIDDLE);
        CHECK_OK(kv_array_new_sparse(&src[i], KV_FLOAT32, 1, (int64_t[]){2 * N}, N, ids, cpu0, &e));
        float *data = row_data(src[i]);
        for (int64_t k = 0; k < N; k++)
            data[k] = (float)(i + 1);
    }
    CHECK_OK(sparse_sum(&sum, src, 2, KV_FLOAT32, cpu0, &e));
    const float *got = row_elements(sum);
    CHECK_INT(sum->nrows, N + 1);
    for (int64_t k = 0; k < sum->nrows; k++) {
        CHECK_INT(sum->rows[k], k <= MIDDLE ? 2 * k : k == MIDDLE + 1 ? 2 * k - 1 : 2 * (k - 1));
        CHECK(got[k] == (k == MIDDLE ? 1 : k == MIDDLE + 1 ? 2 : 3));
    }
}

/* Two lists of the same ids, of more elements than a block has. */
TEST(sum_rows_sees_that_ids_are_the_same)
{
    enum { N = 5000 };
    static int64_t ids[2][N], got_ids[N];
    static double data[2][N], got[N];
    const sparse_rows src[] = {{.ids = ids[0], .data = data[0], .n = N},
                               {.ids = ids[1], .data = data[1], .n = N}};
    own_mem void *room = mem_alloc(3 * pool_workers(), sizeof(void *), &e);
    for (int64_t k = 0; k < N; k++) {
        ids[0][k] = ids[1][k] = 3 * k;
        data[0][k] = (double)k;
        data[1][k] = 0.5;
    }
    CHECK(sum_same_rows(got, got_ids, src, 2, KV_FLOAT64, 1, room));
    for (int64_t k = 0; k < N; k++) {
        CHECK_INT(got_ids[k], 3 * k);
        CHECK(got[k] == (double)k + 0.5);
    }
    ids[1][N - 1]++;
    CHECK(!sum_same_rows(got, got_ids, src, 2, KV_FLOAT64, 1, room));
}

/* A block ends before the id that its table of places has no entry for. */
TEST(sum_rows_as_far_apart_as_a_table)
{
    enum { SPAN = 16384 };
    const int64_t ids[] = {0, 5, SPAN}, first[] = {0, SPAN}, second[] = {5, SPAN};
    const float one[] = {1, 2}, two[] = {10, 20};
    const sparse_rows src[] = {{.ids = first, .data = one, .n = 2},
                               {.ids = second, .data = two, .n = 2}};
    float got[3];
    own_mem void *room = mem_alloc(3 * pool_workers(), sizeof(void *), &e);
    sum_rows(got, ids, 3, src, 2, KV_FLOAT32, 1, room);
    CHECK(got[0] == 1 && got[1] == 10 && got[2] == 22);
}

/* Two arrays of two rows of -0; the ids of array i are first[i] and 2. */
static void check_minus_zeros(const int64_t first[2], int64_t nrows)
{
    own_array *sum = NULL;
    own_arrays *src[3] = {NULL};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(kv_array_new_sparse(&src[i], KV_FLOAT32, 1, (int64_t[]){4}, 2,
                                     (int64_t[]){first[i], 2}, cpu0, &e));
        memcpy(row_data(src[i]), (float[]){-0.0f, -0.0f}, 8);
    }
    CHECK_OK(sparse_sum(&sum, src, 2, KV_FLOAT32, cpu0, &e));
    const void *got = row_elements(sum);
    CHECK_INT(sum->nrows, nrows);
    CHECK(memcmp(got, (float[3]){0, 0, 0}, (size_t)nrows * 4) == 0);
}

/* A sum begins at zero: minus zero becomes zero, as in a default array. */
TEST(sum_rows_of_minus_zeros)
{
    check_minus_zeros((int64_t[]){0, 1}, 3);
    check_minus_zeros((int64_t[]){1, 1}, 2);
}

/* Rows without elements, and no rows: nothing is written. */
TEST(sum_rows_of_nothing)
{
    const int64_t ids[] = {1, 3};
    int64_t room = 0;
    char to = 5;
    for (int d = 0; d < KV_DTYPE_END; d++) {
        const sparse_rows two = {ids, 2, &to}, none = {ids, 0, &to};
        sum_rows(&to, ids, 2, &two, 1, (kv_dtype)d, 0, &room);
        sum_rows(&to, ids, 0, &none, 1, (kv_dtype)d, 4, &room);
        CHECK_INT(to, 5);
    }
}
