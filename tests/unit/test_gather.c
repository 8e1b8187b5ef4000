/* Rows of several arrays gathered and scattered, and rules on rows that lie apart, which work on
 * gathered rows: the bits of rules on whole arrays. */

#include "cpu/cpu.h"
#include "store_help.h"

enum { ROWS = 301, N = 101, ARRAYS = 5 };

/* n rows of some arrays, whose rows have these bytes, to rooms and changed back. */
static void check_each(const int64_t bytes[ARRAYS], int64_t n)
{
    kv_err e = {0};
    row_move moves[ARRAYS];
    char *want[ARRAYS];
    int64_t at[N];
    own_text *beside = mem_zalloc(N, 100, &e);
    for (int64_t k = 0; k < N; k++)
        at[k] = 3 * k - (k % 7 == 6);
    for (int j = 0; j < ARRAYS; j++) {
        int64_t size = ROWS * bytes[j];
        char *array = mem_alloc(size, 1, &e);
        for (int64_t i = 0; i < size; i++)
            array[i] = (char)(i * 31 + i / 251 + j);
        want[j] = mem_alloc(size, 1, &e);
        memcpy(want[j], array, (size_t)size);
        moves[j] = (row_move){array, mem_zalloc(n * bytes[j] + 1, 1, &e), bytes[j]};
    }
    gather_each(moves, ARRAYS, at, n, N - n, beside, 100);
    for (int j = 0; j < ARRAYS; j++) {
        char *array = moves[j].array, *room = moves[j].room;
        int64_t size = bytes[j];
        for (int64_t k = 0; k < n; k++)
            CHECK(memcmp(room + k * size, array + at[k] * size, (size_t)size) == 0);
        CHECK_INT(room[n * size], 0);
        for (int64_t i = 0; i < n * size; i++)
            room[i] ^= (char)(85 + j);
        for (int64_t k = 0; k < n; k++)
            memcpy(want[j] + at[k] * size, room + k * size, (size_t)size);
    }
    scatter_each(moves, ARRAYS, at, n, N - n);
    for (int j = 0; j < ARRAYS; j++) {
        CHECK(memcmp(moves[j].array, want[j], (size_t)(ROWS * bytes[j])) == 0);
        mem_free(want[j]);
        mem_free(moves[j].array);
        mem_free(moves[j].room);
    }
}

TEST(gather_each_and_scatter)
{
    static const int64_t sizes[] = {1, 2, 4, 8, 12, 64, 100, 128, 192, 256, 320, 1000};
    enum { NSIZES = sizeof sizes / sizeof *sizes };
    for (int i = 0; i < NSIZES; i++)
        for (int64_t n = 1; n <= N; n += 50) {
            int64_t size = sizes[i], other = sizes[(i + 3) % NSIZES];
            check_each((const int64_t[]){size, other, size, size, other}, n);
            check_each((const int64_t[]){size, size, size, size, size}, n);
        }
}

#define STEPS                                                                                      \
    "state a, b, c; a = a * 0.9 + input; b += a * a; c = input; "                                  \
    "stored -= a / (sqrt(b) + 1) + 0.01 * stored }"

static kv_array *numbers(kv_dtype dtype, int64_t rows, int64_t row, int seed)
{
    return ARRAY_OF(dtype, 2, ((int64_t[]){rows, row}), cpu0,
                    (double)((i * 7919 + seed * 104729) % 2003 - 1001) / 512);
}

/* Which rows a value holds: mostly some that lie apart, and now and then a run. */
static bool holds(int64_t r, int step)
{
    return (r * 7 + step) % 5 == 0 || r / 40 % 3 == step;
}

/* A row_sparse array of the rows of `value` that it holds; the others become zeros in `value`. */
static kv_array *some_rows(kv_array *value, int step)
{
    kv_err e = {0};
    kv_array *a = NULL;
    void *data = array_data(value), *to = NULL;
    const int64_t *shape = kv_array_shape(value);
    own_mem int64_t *ids = mem_alloc(shape[0], sizeof *ids, &e);
    int64_t bytes = kv_array_bytes(value) / shape[0], n = 0;
    for (int64_t r = 0; r < shape[0]; r++) {
        if (holds(r, step))
            ids[n++] = r;
        else
            memset((char *)data + r * bytes, 0, (size_t)bytes);
    }
    CHECK_OK(kv_array_new_sparse(&a, kv_array_dtype(value), 2, shape, n, ids, cpu0, &e));
    CHECK_OK(kv_array_write_rows(a, &to, &e));
    for (int64_t k = 0; k < n; k++)
        memcpy((char *)to + k * bytes, (char *)data + ids[k] * bytes, (size_t)bytes);
    return a;
}

/* Rows that are in all values get the bits of the rule on whole arrays, those in none stay as they
 * were. */
static void check_lazy(kv_dtype dtype, int64_t rows, int64_t row)
{
    own_kv *lazy = make("local"), *whole = make("local");
    kv_key key = id(3);
    own_array *first = numbers(dtype, rows, row, 1);
    int64_t bytes = kv_array_bytes(first) / rows;
    own_array *full = MADE(kv_array, kv_array_to_sparse, first);
    CHECK_OK(kv_init(lazy, &key, 1, &full, NULL, &e));
    CHECK_OK(kv_init(whole, &key, 1, &first, NULL, &e));
    set_rule(lazy, "{ rows present; " STEPS);
    set_rule(whole, "{ " STEPS);
    for (int t = 0; t < 3; t++) {
        own_array *value = numbers(dtype, rows, row, t + 5), *sparse = some_rows(value, 1);
        CHECK_OK(kv_push(lazy, &key, 1, &sparse, NULL, &e));
        CHECK_OK(kv_push(whole, &key, 1, &value, NULL, &e));
    }
    own_array *out = pull_into(lazy, key, MADE(kv_array, kv_array_dup, first, dtype, cpu0));
    own_array *want = pull_into(whole, key, MADE(kv_array, kv_array_dup, first, dtype, cpu0));
    const char *got = array_elements(out), *changed = array_elements(want);
    const char *before = array_elements(first);
    for (int64_t r = 0; r < rows; r++)
        CHECK(memcmp(got + r * bytes, (holds(r, 1) ? changed : before) + r * bytes,
                     (size_t)bytes) == 0);
}

TEST(gather_for_rules)
{
    static const int64_t widths[] = {1, 2, 3, 16, 31, 64, 65, 256, 511, 512, 1025};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        check_lazy(KV_FLOAT32, 1300, widths[i]);
        check_lazy(i % 2 ? KV_FLOAT64 : KV_FLOAT16, 700, widths[i]);
    }
    check_lazy(KV_FLOAT32, 300001, 1); /* several threads */
}
