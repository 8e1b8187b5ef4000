/* Checks of the types of several machines: what every rank must see in closed form, and training
 * that must give the bits of one process.
 *
 *     mpirun -n WORKERS dist_check [NAME…]
 *
 * Every rank runs the same checks, each with stores of its own. Numbers are small and whole, so
 * that equality is exact. Rank 0 prints TAP; a rank that finds something wrong says so and ends the
 * job. $DIST_SIDE makes large arrays smaller.
 */
#include <unistd.h>

#include "must.h"

static int rounds;
static int64_t side;

/* ---- Arrays ---- */

static kv_key text(const char *name)
{
    return (kv_key){.name = name};
}

static kv_key number(int64_t id)
{
    return (kv_key){.id = id};
}

static kv_array *filled(kv_dtype dtype, int64_t rows, int64_t columns, double x)
{
    int64_t shape[] = {rows, columns};
    kv_array *wide = NULL, *out = NULL;
    void *data = NULL;
    OK(kv_array_new(&wide, KV_FLOAT32, 2, shape, (kv_ctx){0}, &e));
    OK(kv_array_write(wide, &data, &e));
    for (int64_t i = 0; i < rows * columns; i++)
        ((float *)data)[i] = (float)x;
    if (dtype == KV_FLOAT32)
        return wide;
    OK(kv_array_dup(&out, wide, dtype, (kv_ctx){0}, &e));
    kv_array_unref(wide);
    return out;
}

static bool all_are(kv_array *a, double x)
{
    own_array *wide = NULL;
    const void *data = NULL;
    float want = (float)x;
    int others = 0;
    OK(kv_array_dup(&wide, a, KV_FLOAT32, (kv_ctx){0}, &e));
    OK(kv_array_read(wide, &data, &e));
    for (int64_t i = 0, n = kv_array_size(a); i < n; i++)
        others |= ((const float *)data)[i] != want;
    return !others;
}

/* ---- Stores ---- */

static kv *make(const char *type)
{
    kv *s = NULL;
    OK(kv_create(type, NULL, 0, &s, &e));
    return s;
}

static kv *make_test(const char *type, const char *rescale)
{
    kv *s = make(type);
    OK(kv_set_optimizer(s, "test", &(kv_opt){"rescale_grad", rescale}, 1, &e));
    return s;
}

static void init(kv *s, kv_key key, kv_array *a)
{
    OK(kv_init(s, &key, 1, &a, NULL, &e));
    kv_array_unref(a);
}

static void push(kv *s, kv_key key, kv_array *a)
{
    OK(kv_push(s, &key, 1, &a, NULL, &e));
    kv_array_unref(a);
}

/* Whether all elements of a key are x. */
static bool holds(kv *s, kv_key key, kv_dtype dtype, int64_t rows, int64_t columns, double x)
{
    own_array *out = filled(dtype, rows, columns, -77);
    OK(kv_pull(s, &key, 1, &out, NULL, &e));
    bool same = all_are(out, x);
    return same;
}

/* Of `side`, and a little more. */
static struct {
    const char *key;
    int64_t rows, columns;
} sizes[] = {{"3", 2, 3}, {"5", 2, 3}, {"irregular", 0, 0}, {"99", 0, 0}};

enum { SIZES = sizeof sizes / sizeof *sizes };

/* ---- Sums and updates ---- */

static void sums_of(kv_dtype dtype)
{
    own_kv *s = make_test("dist_sync", "2");
    int each = workers * (workers + 1) / 2;
    for (int k = 0; k < SIZES; k++)
        init(s, text(sizes[k].key), filled(dtype, sizes[k].rows, sizes[k].columns, 1));
    for (int k = 0; k < SIZES; k++)
        for (int i = 0; i < rounds; i++) {
            push(s, text(sizes[k].key), filled(dtype, sizes[k].rows, sizes[k].columns, rank + 1));
            MUST(holds(s, text(sizes[k].key), dtype, sizes[k].rows, sizes[k].columns,
                       each * 2 * (i + 1) + 1));
        }
}

static void check_default(void)
{
    sums_of(KV_FLOAT32);
}

static void check_float16(void)
{
    sums_of(KV_FLOAT16);
}

/* ---- row_sparse ---- */

/* Rows that are full of x; those of ids. */
static kv_array *rows_of(kv_dtype dtype, int64_t rows, int64_t columns, int64_t n,
                         const int64_t *ids, double x)
{
    kv_array *wide = NULL, *out = NULL;
    int64_t shape[] = {rows, columns};
    void *data = NULL;
    OK(kv_array_new_sparse(&wide, KV_FLOAT32, 2, shape, n, ids, (kv_ctx){0}, &e));
    OK(kv_array_write_rows(wide, &data, &e));
    for (int64_t i = 0; i < n * columns; i++)
        ((float *)data)[i] = (float)x;
    OK(kv_array_dup(&out, wide, dtype, (kv_ctx){0}, &e));
    kv_array_unref(wide);
    return out;
}

/* Pulls rows; returns them as a dense array of float32. */
static kv_array *pull_rows(kv *s, kv_key key, kv_dtype dtype, int64_t rows, int64_t columns,
                           int64_t n, int64_t *ids)
{
    kv_array *out = rows_of(dtype, rows, columns, 0, NULL, 0), *dense = NULL, *wide = NULL;
    own_array *list = NULL;
    OK(kv_array_wrap(&list, ids, KV_INT64, 1, &n, (kv_ctx){0}, NULL, NULL, &e));
    OK(kv_row_sparse_pull(s, &key, 1, &list, &out, NULL, &e));
    OK(kv_array_to_dense(&dense, out, &e));
    OK(kv_array_dup(&wide, dense, KV_FLOAT32, (kv_ctx){0}, &e));
    kv_array_unref(out);
    kv_array_unref(dense);
    return wide;
}

/* Whether the rows among ids are want[row] and the others 0. */
static bool rows_are(kv_array *a, int64_t rows, int64_t columns, int64_t n, const int64_t *ids,
                     const double *want)
{
    const void *data = NULL;
    OK(kv_array_read(a, &data, &e));
    for (int64_t r = 0; r < rows; r++) {
        bool asked = false;
        for (int64_t i = 0; i < n; i++)
            asked = asked || ids[i] == r;
        for (int64_t j = 0; j < columns; j++)
            if (((const float *)data)[r * columns + j] != (float)(asked ? want[r] : 0))
                return false;
    }
    kv_array_unref(a);
    return true;
}

static void few_rows(kv_dtype dtype)
{
    own_kv *s = make_test("dist_sync", "2");
    int64_t all[] = {0, 1, 2, 3}, own = rank % 4, some[] = {(rank + 1) % 4, 2, 2};
    init(s, text("9"), rows_of(dtype, 4, 3, 4, all, 1));
    init(s, text("dense"), filled(dtype, 4, 3, 1));
    for (int i = 0; i < rounds; i++) {
        double want[4] = {1, 1, 1, 1};
        for (int r = 0; r < workers; r++)
            want[r % 4] += (r + 1) * 2.0 * (i + 1);
        push(s, text("9"), rows_of(dtype, 4, 3, 1, &own, rank + 1));
        push(s, text("dense"), rows_of(dtype, 4, 3, 1, &own, rank + 1));
        MUST(rows_are(pull_rows(s, text("9"), dtype, 4, 3, 3, some), 4, 3, 3, some, want));
        kv_array *out = filled(KV_FLOAT32, 4, 3, -1);
        kv_key dense = text("dense");
        OK(kv_pull(s, &dense, 1, &out, NULL, &e));
        MUST(rows_are(out, 4, 3, 4, all, want));
    }
}

/* Rows that are pulled behind a push come behind its round, however late the other ranks push. */
static void check_rows_behind(void)
{
    own_kv *s = make_test("dist_sync", "1");
    int64_t all[] = {0, 1, 2, 3};
    double want[4];
    init(s, number(3), rows_of(KV_FLOAT32, 4, 3, 4, all, 0));
    for (int i = 1; i <= 2; i++) {
        for (int r = 0; r < 4; r++)
            want[r] = (double)i * workers;
        if (rank == workers - 1)
            usleep(20000);
        push(s, number(3), rows_of(KV_FLOAT32, 4, 3, 4, all, 1));
        MUST(rows_are(pull_rows(s, number(3), KV_FLOAT32, 4, 3, 4, all), 4, 3, 4, all, want));
    }
}

static void check_rows(void)
{
    few_rows(KV_FLOAT32);
    few_rows(KV_FLOAT16);
}

/* Values without rows, and of rows of zeros, take part in a round and change nothing. */
static void check_rows_of_zeros(void)
{
    own_kv *s = make_test("dist_sync", "2");
    enum { N = 1200 };
    static int64_t all[N];
    static double ones[N];
    for (int i = 0; i < N; i++) {
        all[i] = i;
        ones[i] = 1;
    }
    init(s, text("97"), rows_of(KV_FLOAT32, N, 40, N, all, 1));
    for (int i = 0; i < 2; i++) {
        push(s, text("97"), rows_of(KV_FLOAT32, N, 40, i == 0 ? 0 : N, all, 0));
        MUST(rows_are(pull_rows(s, text("97"), KV_FLOAT32, N, 40, N, all), N, 40, N, all, ones));
        MUST(rows_are(pull_rows(s, text("97"), KV_FLOAT32, N, 40, 0, all), N, 40, 0, all, ones));
    }
}

/* Every rank has rows of its own among some of a large array. */
static void check_many_rows(void)
{
    static int64_t mine[MOST_SIDE], asked[MOST_SIDE], all[MOST_SIDE];
    static double want[MOST_SIDE];
    own_kv *s = make_test("dist_sync", "2");
    for (int i = 0; i < side; i++)
        all[i] = i;
    init(s, text("98"), rows_of(KV_FLOAT32, side, side, side, all, 1));
    for (int i = 0; i < 2; i++) {
        int64_t n = 0, nasked = 0;
        for (int r = 0; r < side; r++) {
            want[r] = 1;
            for (int k = 0; k < workers; k++)
                if (r * 7919 % 10 < 3 && r % (2 * (k + 1)) == 0)
                    want[r] += (k + 1) * 2.0 * (i + 1);
            if (r * 7919 % 10 < 3 && r % (2 * (rank + 1)) == 0)
                mine[n++] = r;
            if ((r * 31 + rank) % 5 == 0)
                asked[nasked++] = r;
        }
        push(s, text("98"), rows_of(KV_FLOAT32, side, side, n, mine, rank + 1));
        MUST(rows_are(pull_rows(s, text("98"), KV_FLOAT32, side, side, nasked, asked), side, side,
                      nasked, asked, want));
    }
}

/* One step of gradient descent, of a dense weight and of a row_sparse one. */
static void check_step(void)
{
    int64_t all[] = {0, 1};
    double want = 1 - workers * (workers + 1) / 2, both[] = {want, want};
    own_kv *s = make("dist_sync");
    OK(kv_set_optimizer(s, "sgd", &(kv_opt){"learning_rate", "1"}, 1, &e));
    init(s, text("dense"), filled(KV_FLOAT32, 10, 1, 1));
    init(s, text("rows"), rows_of(KV_FLOAT32, 2, 10, 2, all, 1));
    push(s, text("dense"), filled(KV_FLOAT32, 10, 1, rank + 1));
    push(s, text("rows"), rows_of(KV_FLOAT32, 2, 10, 2, all, rank + 1));
    MUST(holds(s, text("dense"), KV_FLOAT32, 10, 1, want));
    MUST(rows_are(pull_rows(s, text("rows"), KV_FLOAT32, 2, 10, 2, all), 2, 10, 2, all, both));
}

/* ---- Compressed ---- */

static void compressed(const char *type, const char *threshold, const double (*steps)[2], int n)
{
    own_kv *s = make_test("dist_sync", "2");
    kv_opt how[] = {{"type", type}, {"threshold", threshold}};
    OK(kv_set_gradient_compression(s, how, 2, &e));
    for (int k = 0; k < SIZES; k++) {
        kv_key key = text(sizes[k].key);
        init(s, key, filled(KV_FLOAT32, sizes[k].rows, sizes[k].columns, 1));
        MUST(holds(s, key, KV_FLOAT32, sizes[k].rows, sizes[k].columns, 1));
    }
    for (int k = 0; k < SIZES; k++)
        for (int i = 0; i < n; i++) {
            push(s, text(sizes[k].key),
                 filled(KV_FLOAT32, sizes[k].rows, sizes[k].columns, steps[i][0]));
            MUST(holds(s, text(sizes[k].key), KV_FLOAT32, sizes[k].rows, sizes[k].columns,
                       1 + workers * steps[i][1]));
        }
}

/* Each step: the pushed value, and the key's value after it, in numbers of workers. */
static void check_2bit(void)
{
    static const double steps[][2] = {{0, 0},   {0.4, 0}, {0.1, 1},
                                      {0.2, 1}, {0.3, 2}, {0.5, 3}};
    compressed("2bit", "0.5", steps, 6);
}

static void check_1bit(void)
{
    static const double steps[][2] = {{1, 2}, {-1, 0}, {2, 2}, {0, 4}, {-2, 2}};
    compressed("1bit", "0", steps, 5);
}

/* The same random numbers of every rank: the residual carries over. */
static void random_codes(const char *type, const char *threshold)
{
    enum { N = 70001 };
    static float residual[N], want[N];
    own_kv *s = make_test("dist_sync", "2");
    kv_opt how[] = {{"type", type}, {"threshold", threshold}};
    bool two = strcmp(type, "2bit") == 0;
    float t = (float)atof(threshold);
    uint32_t seed = 123;
    memset(residual, 0, sizeof residual);
    memset(want, 0, sizeof want);
    OK(kv_set_gradient_compression(s, how, 2, &e));
    init(s, number(1002), filled(KV_FLOAT32, N, 1, 0));
    for (int i = 0; i < 7; i++) {
        kv_array *a = filled(KV_FLOAT32, N, 1, 0), *out = filled(KV_FLOAT32, N, 1, -1);
        kv_key key = number(1002);
        void *data = NULL;
        const void *got = NULL;
        OK(kv_array_write(a, &data, &e));
        for (int j = 0; j < N; j++) {
            seed = seed * 1664525 + 1013904223;
            float x = (float)(seed >> 8) * 0x1p-24f, r = residual[j] + x;
            float sent = two ? (r >= t ? t : r <= -t ? -t : 0) : r > t ? 1.0f : -1.0f;
            ((float *)data)[j] = x;
            residual[j] = r - sent;
            want[j] += 2 * (float)workers * sent;
        }
        push(s, key, a);
        OK(kv_pull(s, &key, 1, &out, NULL, &e));
        OK(kv_array_read(out, &got, &e));
        MUST(memcmp(got, want, sizeof want) == 0);
        kv_array_unref(out);
    }
}

static void check_random_codes(void)
{
    random_codes("2bit", "0.5");
    random_codes("1bit", "0");
}

/* ---- Compressed pulls, beside a model ---- */

enum { PERIOD = 7, MOST_WORKERS = 16 };

typedef struct model {
    bool one_bit;
    float threshold;
    float residual[MOST_WORKERS + 1][PERIOD]; /* by rank; behind them, of the server */
} model;

/* The number that the code of x stands for. */
static float coded(const model *m, float *residual, float x)
{
    float r = *residual + x, t = m->threshold, got;
    if (m->one_bit)
        got = r > t ? 1 : -1;
    else
        got = r >= t ? t : r <= -t ? -t : 0;
    *residual = r - got;
    return got;
}

static float pattern(int from, int step, int64_t i)
{
    return (float)((i * 5 + step * 3 + from) % PERIOD - 3) * 0.17f + 0.03f * (float)from;
}

static kv_array *patterns(int64_t rows, int64_t columns, int step)
{
    kv_array *a = filled(KV_FLOAT32, rows, columns, 0);
    void *data = NULL;
    OK(kv_array_write(a, &data, &e));
    for (int64_t i = 0; i < rows * columns; i++)
        ((float *)data)[i] = pattern(rank, step, i % PERIOD);
    return a;
}

static void expect_model(kv *s, kv_key key, int64_t rows, int64_t columns, const float *want)
{
    own_array *out = filled(KV_FLOAT32, rows, columns, -77);
    own_array *wide = filled(KV_FLOAT64, rows, columns, -77);
    kv_array *outs[] = {out, wide};
    const void *data = NULL, *wider = NULL;
    OK(kv_pull(s, (kv_key[]){key, key}, 2, outs, NULL, &e));
    OK(kv_array_read(out, &data, &e));
    OK(kv_array_read(wide, &wider, &e));
    for (int64_t i = 0; i < rows * columns; i++) {
        MUST(((const float *)data)[i] == want[i % PERIOD]);
        MUST(((const double *)wider)[i] == (double)want[i % PERIOD]);
    }
}

static void follow_model(kv *s, bool one_bit, float threshold)
{
    model m = {.one_bit = one_bit, .threshold = threshold};
    for (int step = 0; step < 8; step++) {
        float want[PERIOD];
        for (int i = 0; i < PERIOD; i++) {
            float sum = coded(&m, &m.residual[0][i], pattern(0, step, i));
            for (int r = 1; r < workers; r++)
                sum += coded(&m, &m.residual[r][i], pattern(r, step, i));
            want[i] = coded(&m, &m.residual[MOST_WORKERS][i], sum);
        }
        push(s, number(1), patterns(5, 3, step));
        push(s, number(2), patterns(side, side, step));
        expect_model(s, number(1), 5, 3, want);
        expect_model(s, number(2), side, side, want);
    }
}

static void compress_pulls(kv *s, const char *type, const char *threshold)
{
    kv_opt how[] = {{"type", type}, {"threshold", threshold}, {"pull", "true"}};
    OK(kv_set_gradient_compression(s, how, 3, &e));
}

static int ignore(void *arg, const kv_key *key, kv_array *input, kv_array *stored, kv_err *why)
{
    (void)arg, (void)key, (void)input, (void)stored, (void)why;
    return KV_OK;
}

static void check_pulled_codes(void)
{
    kv_err why = {0};
    own_kv *s = make("dist_sync");
    init(s, number(1), filled(KV_FLOAT32, 5, 3, 9));
    init(s, number(2), filled(KV_FLOAT32, side, side, 9));
    compress_pulls(s, "2bit", "0.25");
    MUST(holds(s, number(2), KV_FLOAT32, side, side, 9)); /* nothing was pushed yet */
    follow_model(s, false, 0.25f);
    compress_pulls(s, "1bit", "0.125"); /* no residual is left */
    follow_model(s, true, 0.125f);
    OK(kv_set_gradient_compression(s, &(kv_opt){"type", "none"}, 1, &e));
    compress_pulls(s, "1bit", "0.125");
    follow_model(s, true, 0.125f);
    MUST(kv_set_optimizer(s, "test", NULL, 0, &why) == KV_E_UNSUPPORTED);
    OK(kv_set_gradient_compression(s, &(kv_opt){"type", "none"}, 1, &e));
    push(s, number(1), filled(KV_FLOAT32, 5, 3, 3));
    MUST(holds(s, number(1), KV_FLOAT32, 5, 3, 3.0 * workers));
    why = (kv_err){0};
    MUST(kv_set_updater(s, ignore, NULL, NULL, &why) == KV_E_UNSUPPORTED);
    MUST(strcmp(why.text, "an updater of a store of type \"dist_sync\" is a rule, no function of "
                          "the program") == 0);
    OK(kv_set_optimizer(s, "test", NULL, 0, &e));
    kv_opt again[] = {{"type", "2bit"}, {"pull", "true"}};
    why = (kv_err){0};
    MUST(kv_set_gradient_compression(s, again, 2, &why) == KV_E_UNSUPPORTED);
}

/* ---- init ---- */

static void check_init(void)
{
    own_kv *s = make("dist_sync");
    for (int i = 0; i < 100; i++)
        init(s, number(200 + i), filled(i < 50 ? KV_FLOAT32 : KV_FLOAT16, 2, 3, rank ? -1 : i));
    for (int i = 0; i < 6; i++)
        init(s, number(300 + i),
             filled(i < 3 ? KV_FLOAT32 : KV_FLOAT16, side, side, rank ? -1 : i));
    for (int i = 0; i < 100; i++)
        MUST(holds(s, number(200 + i), i < 50 ? KV_FLOAT32 : KV_FLOAT16, 2, 3, i));
    for (int i = 0; i < 6; i++)
        MUST(holds(s, number(300 + i), i < 3 ? KV_FLOAT32 : KV_FLOAT16, side, side, i));
}

/* Rank 0 alone makes the keys; the others pull before that, or behind a barrier. */
static void check_init_by_one(void)
{
    own_kv *s = make("dist_sync");
    if (rank == 0) {
        usleep(20000);
        init(s, number(1), filled(KV_FLOAT32, 2, 3, 5));
    }
    MUST(holds(s, number(1), KV_FLOAT32, 2, 3, 5));
    if (rank == 0)
        init(s, number(2), filled(KV_FLOAT32, side, side, 6));
    OK(kv_barrier(s, &e));
    MUST(holds(s, number(2), KV_FLOAT32, side, side, 6));
    push(s, number(2), filled(KV_FLOAT32, side, side, 1));
    MUST(holds(s, number(2), KV_FLOAT32, side, side, workers));
}

/* The first worker's value holds, also where others have pushed before: who does not push sees it.
 */
static void check_init_behind_push(void)
{
    own_kv *s = make("dist_sync");
    for (int i = 0; i < 2; i++) {
        int64_t n = i ? side : 3;
        if (rank == 1)
            push(s, number(i), filled(KV_FLOAT32, n, n, 1));
        if (rank == 0) {
            usleep(50000);
            init(s, number(i), filled(KV_FLOAT32, n, n, 5));
        }
        if (rank != 1) {
            MUST(holds(s, number(i), KV_FLOAT32, n, n, 5));
            push(s, number(i), filled(KV_FLOAT32, n, n, 1));
        }
        MUST(holds(s, number(i), KV_FLOAT32, n, n, workers));
    }
}

/* A push makes a key when there is no updater; ranks meet text keys in different orders. */
static void check_made_by_push(void)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    own_kv *s = make("dist_sync");
    for (int i = 0; i < 5; i++) {
        int k = (i + rank) % 5;
        push(s, text(names[k]), filled(KV_FLOAT32, 3, 3, k + rank));
    }
    for (int k = 0; k < 5; k++)
        MUST(holds(s, text(names[k]), KV_FLOAT32, 3, 3,
                   k * workers + workers * (workers - 1) / 2));
}

/* ---- Several values ---- */

static void check_device(void)
{
    own_kv *s = make_test("dist_device_sync", "2");
    int each = workers * (workers + 1);
    for (int k = 0; k < SIZES; k++) {
        kv_key keys[2] = {text(sizes[k].key), text(sizes[k].key)};
        init(s, keys[0], filled(KV_FLOAT32, sizes[k].rows, sizes[k].columns, 1));
        for (int i = 0; i < rounds; i++) {
            kv_array *two[2], *outs[2];
            for (int j = 0; j < 2; j++) {
                two[j] = filled(KV_FLOAT32, sizes[k].rows, sizes[k].columns, rank + 1);
                outs[j] = filled(KV_FLOAT32, sizes[k].rows, sizes[k].columns, -1);
            }
            OK(kv_pushpull(s, keys, 2, two, keys, 2, outs, NULL, &e));
            for (int j = 0; j < 2; j++) {
                MUST(all_are(outs[j], each * 2 * (i + 1) + 1));
                MUST(all_are(two[j], rank + 1));
                kv_array_unref(two[j]);
                kv_array_unref(outs[j]);
            }
        }
    }
}

static void check_in_place(void)
{
    own_kv *s = make("dist_device_sync");
    kv_array *out = filled(KV_FLOAT32, side, side, -1);
    kv_array *in = filled(KV_FLOAT32, side, side, rank + 8);
    kv_key key = text("99"), keys[2] = {key, key};
    OK(kv_broadcast(s, &key, 1, &in, &key, 1, &out, NULL, &e));
    MUST(all_are(out, 8));
    kv_array_unref(in);
    kv_array_unref(out);
    for (int i = 0; i < 3; i++) {
        kv_array *two[2];
        for (int j = 0; j < 2; j++)
            two[j] = filled(KV_FLOAT32, side, side, rank + 1);
        OK(kv_pushpull(s, keys, 2, two, NULL, 0, NULL, NULL, &e));
        for (int j = 0; j < 2; j++) {
            MUST(all_are(two[j], workers * (workers + 1)));
            kv_array_unref(two[j]);
        }
    }
}

static void count_end(void *arg)
{
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

/* Values that receive each other's sums: each array is still one, and ends with its owner. */
static void check_crossed(void)
{
    enum { N = 100000 };
    int64_t size = N;
    int ended = 0;
    kv *s = make("horovod");
    kv_key keys[] = {number(1), number(2)};
    float *memory[2];
    kv_array *two[2];
    for (int j = 0; j < 2; j++) {
        memory[j] = malloc(N * sizeof **memory);
        MUST(memory[j]);
        for (int i = 0; i < N; i++)
            memory[j][i] = (float)(rank + 1 + 10 * j);
        OK(kv_array_wrap(&two[j], memory[j], KV_FLOAT32, 1, &size, (kv_ctx){0}, count_end, &ended,
                         &e));
    }
    kv_array *outs[] = {two[1], two[0]};
    int sum = workers * (workers + 1) / 2;
    OK(kv_pushpull(s, keys, 2, two, keys, 2, outs, NULL, &e));
    MUST(all_are(outs[0], sum));
    MUST(all_are(outs[1], sum + 10 * workers));
    OK(kv_wait(s, &e));
    MUST(ended == 0);
    for (int j = 0; j < 2; j++)
        kv_array_unref(two[j]);
    kv_free(s);
    MUST(ended == 2);
    for (int j = 0; j < 2; j++)
        free(memory[j]);
}

/* The caller may write a pushed array again at once. */
static void check_overwrite(void)
{
    own_kv *s = make("dist_sync");
    own_array *a = filled(KV_FLOAT32, side, side, 0);
    kv_key key = number(1);
    init(s, key, filled(KV_FLOAT32, side, side, 0));
    for (int i = 1; i <= 3; i++) {
        void *data = NULL;
        kv_call how = {.priority = -i};
        OK(kv_array_write(a, &data, &e));
        for (int j = 0; j < side * side; j++)
            ((float *)data)[j] = (float)i;
        OK(kv_push(s, &key, 1, &a, &how, &e));
        OK(kv_array_write(a, &data, &e));
        memset(data, 0x55, (size_t)(side * side) * sizeof(float));
        MUST(holds(s, key, KV_FLOAT32, side, side, i * workers));
    }
}

/* ---- What is refused ---- */

static void check_refused(void)
{
    own_kv *s = make("dist_sync");
    kv_key key = number(999), other = text("invalid_key"), absent = number(7);
    own_array *a = filled(KV_FLOAT32, 2, 3, 1), *wrong = filled(KV_FLOAT32, 3, 3, 1);
    own_array *rows = rows_of(KV_FLOAT32, 2, 3, 0, NULL, 0);
    kv_err why = {0};
    kv_call fill = {.flags = KV_FILL_SPARSE};
    init(s, key, filled(KV_FLOAT32, 2, 3, 1));
    MUST(kv_pull(s, &other, 1, &rows, &fill, &why) == KV_E_KEY);
    why = (kv_err){0};
    MUST(kv_push(s, &key, 1, &wrong, NULL, &why) == KV_E_SHAPE);
    why = (kv_err){0};
    MUST(kv_init(s, &key, 1, &a, NULL, &why) == KV_E_KEY);
    MUST(strcmp(why.text, "key 999 is initialised already") == 0);
    MUST(strcmp(why.hint, "init makes new keys; push changes this one") == 0);
    OK(kv_barrier(s, &e));
    why = (kv_err){0};
    if (rank == 0) {
        MUST(kv_pull(s, &absent, 1, &a, NULL, &why) == KV_E_KEY);
        MUST(strcmp(why.text, "key 7 was never initialised") == 0);
        MUST(strcmp(why.hint, "init it first") == 0);
    }
    push(s, key, filled(KV_FLOAT32, 2, 3, 1));
    MUST(holds(s, key, KV_FLOAT32, 2, 3, workers));
}

static void check_async_refused(void)
{
    own_kv *s = make("dist_async");
    own_array *a = filled(KV_FLOAT32, 2, 3, 1);
    kv_key key = number(3);
    kv_err why = {0};
    init(s, key, filled(KV_FLOAT32, 2, 3, 1));
    MUST(kv_push(s, &key, 1, &a, NULL, &why) == KV_E_VALUE);
    MUST(strcmp(why.text, "a push to a store of type \"dist_async\" needs an optimizer") == 0);
    OK(kv_set_optimizer(s, "sgld", &(kv_opt){"lr_mult", "3=0"}, 1, &e));
    push(s, key, filled(KV_FLOAT32, 2, 3, 1));
    why = (kv_err){0};
    MUST(kv_wait(s, &why) == KV_E_VALUE && why.has_key && why.key_id == 3);
}

/* ---- Training gives the bits of one process ---- */

/* A gradient: of a rank, a round, a key. */
static kv_array *gradient(int64_t rows, int64_t columns, int of, int at, int key)
{
    int64_t shape[] = {rows, columns};
    kv_array *a = NULL;
    void *data = NULL;
    uint32_t x = (uint32_t)(of * 7919 + at * 104729 + key * 1299709 + 1);
    OK(kv_array_new(&a, KV_FLOAT32, 2, shape, (kv_ctx){0}, &e));
    OK(kv_array_write(a, &data, &e));
    for (int64_t i = 0; i < rows * columns; i++) {
        x = x * 1664525 + 1013904223;
        ((float *)data)[i] = (float)((int32_t)x) * 0x1p-31f;
    }
    return a;
}

/* Of one part, of several on one server, of all servers. */
static struct {
    int64_t rows, columns;
} shapes[] = {{1, 1}, {10, 1}, {65537, 1}, {0, 100}, {0, 1}};

enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct training {
    const char *name; /* or a rule */
    kv_opt params[4];
    int nparams;
    bool late; /* behind a round by another optimizer */
} training;

static const training first = {"test", {{0}}, 0, false}; /* whose keys are cut */

static void set_optimizer(kv *s, const training *t)
{
    char rescale[32];
    kv_opt params[5] = {{"rescale_grad", rescale}};
    kv_rule *rule = NULL;
    snprintf(rescale, sizeof rescale, "%.17g", 1.0 / (workers * 4));
    memcpy(params + 1, t->params, (size_t)t->nparams * sizeof *params);
    if (t->name[0] == '{') {
        OK(kv_rule_new(&rule, t->name, NULL, 0, 0, &e));
        OK(kv_set_rule(s, rule, params, t->nparams + 1, &e));
        kv_rule_free(rule);
    } else {
        OK(kv_set_optimizer(s, t->name, params, t->nparams + 1, &e));
    }
}

/* One push of all keys, with the values of the ranks from … to - 1. */
static void train_round(kv *s, int at, int from, int to)
{
    for (int k = 0; k < SHAPES; k++) {
        kv_key keys[16];
        kv_array *values[16];
        for (int r = from; r < to; r++) {
            keys[r - from] = number(k);
            values[r - from] = gradient(shapes[k].rows, shapes[k].columns, r, at, k);
        }
        OK(kv_push(s, keys, to - from, values, NULL, &e));
        for (int r = from; r < to; r++)
            kv_array_unref(values[r - from]);
    }
}

static void begin(kv *s, const training *t, int from, int to)
{
    set_optimizer(s, t->late ? &first : t);
    for (int k = 0; k < SHAPES; k++)
        init(s, number(k), gradient(shapes[k].rows, shapes[k].columns, 99, 99, k));
    if (!t->late)
        return;
    train_round(s, 50, from, to);
    set_optimizer(s, t);
}

static void compare(kv *s, kv *one)
{
    for (int k = 0; k < SHAPES; k++) {
        int64_t rows = shapes[k].rows, columns = shapes[k].columns;
        kv_key key = number(k);
        own_array *a = filled(KV_FLOAT32, rows, columns, 1);
        own_array *b = filled(KV_FLOAT32, rows, columns, 2);
        const void *x = NULL, *y = NULL;
        OK(kv_pull(s, &key, 1, &a, NULL, &e));
        OK(kv_pull(one, &key, 1, &b, NULL, &e));
        OK(kv_array_read(a, &x, &e));
        OK(kv_array_read(b, &y, &e));
        MUST(memcmp(x, y, (size_t)(rows * columns) * sizeof(float)) == 0);
    }
}

static void train(const training *t)
{
    own_kv *s = make("dist_sync"), *one = make("local");
    begin(s, t, rank, rank + 1);
    begin(one, t, 0, workers);
    for (int i = 0; i < 3; i++) {
        train_round(s, i, rank, rank + 1);
        train_round(one, i, 0, workers);
        if (i == 1) {
            kv_opt slower = {"clip_gradient", "0.01"};
            OK(kv_update_optimizer(s, &slower, 1, &e));
            OK(kv_update_optimizer(one, &slower, 1, &e));
        }
        compare(s, one);
    }
}

static void check_training(void)
{
    static const training list[] = {
        {"sgd", {{"learning_rate", "0.3"}}, 1, false},
        {"sgd", {{"learning_rate", "0.3"}, {"momentum", "0.9"}}, 2, false},
        {"sgd", {{"lr_scheduler", "factor(step=2, factor=0.5, base_lr=1)"}}, 1, false},
        {"adam", {{"learning_rate", "0.01"}}, 1, false},
        {"adam", {{"learning_rate", "0.01"}}, 1, true},
        {"nadam", {{"learning_rate", "0.01"}}, 1, false},
        {"lamb", {{"learning_rate", "0.01"}}, 1, false},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        train(&list[i]);
}

/* Rules that need whole keys, set when there are keys that were cut. */
static void check_whole(void)
{
    static const training list[] = {
        {"lamb", {{"learning_rate", "0.01"}}, 1, true},
        {"lans", {{"learning_rate", "0.01"}}, 1, true},
        {"sgld", {{"learning_rate", "0.01"}}, 1, true},
        {"groupadagrad", {{"learning_rate", "0.01"}}, 1, true},
        {"nadam", {{"learning_rate", "0.01"}}, 1, true},
        {"{ stored -= 0.1 * input / (1 + norm(stored)) }", {{0}}, 0, true},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        train(&list[i]);
}

/* The same by a file that brings its rule. */
static void check_whole_from_file(void)
{
    static const training lamb = {"lamb", {{"learning_rate", "0.01"}}, 1, false};
    char path[64];
    own_kv *s = make("dist_sync"), *one = make("local");
    snprintf(path, sizeof path, "/tmp/dist_check.%d.states", (int)getpid());
    set_optimizer(s, &first);
    begin(one, &lamb, 0, workers);
    train_round(one, 7, 0, workers);
    OK(kv_save_states(one, path, KV_DUMP_OPTIMIZER, &e));
    for (int k = 0; k < SHAPES; k++) {
        kv_array *a = filled(KV_FLOAT32, shapes[k].rows, shapes[k].columns, 0);
        kv_key key = number(k);
        OK(kv_pull(one, &key, 1, &a, NULL, &e));
        init(s, key, a);
    }
    compare(s, one);
    OK(kv_load_states(s, path, &e));
    unlink(path);
    for (int i = 0; i < 2; i++) {
        train_round(s, i, rank, rank + 1);
        train_round(one, i, 0, workers);
        compare(s, one);
    }
}

/* ---- dist_async ---- */

/* Each rank pushes once: so many pushes are applied. */
static void check_async(void)
{
    own_kv *s = make_test("dist_async", "2");
    for (int k = 0; k < SIZES; k++)
        init(s, text(sizes[k].key), filled(KV_FLOAT32, sizes[k].rows, sizes[k].columns, 1));
    for (int k = 0; k < SIZES; k++)
        push(s, text(sizes[k].key),
             filled(KV_FLOAT32, sizes[k].rows, sizes[k].columns, rank + 1));
    OK(kv_wait(s, &e));
    OK(kv_barrier(s, &e));
    for (int k = 0; k < SIZES; k++)
        MUST(holds(s, text(sizes[k].key), KV_FLOAT32, sizes[k].rows, sizes[k].columns,
                   1 + workers * (workers + 1)));
}

/* nadam has a number that all keys share: with equal pushes their order does not matter. */
static void check_async_shared(void)
{
    static const training nadam = {"nadam", {{"learning_rate", "0.01"}}, 1, false};
    enum { LAST = SHAPES - 1 };
    for (int late = 0; late < 2; late++) {
        own_kv *s = make("dist_async"), *one = make("local");
        kv_key key = number(LAST);
        own_array *a = gradient(shapes[LAST].rows, 1, 1, 1, 1);
        own_array *b = gradient(shapes[LAST].rows, 1, 2, 2, 2);
        const void *x = NULL, *y = NULL;
        if (!late)
            set_optimizer(s, &nadam);
        init(s, key, gradient(shapes[LAST].rows, 1, 9, 9, 9));
        if (late)
            set_optimizer(s, &nadam);
        set_optimizer(one, &nadam);
        init(one, key, gradient(shapes[LAST].rows, 1, 9, 9, 9));
        OK(kv_push(s, &key, 1, &a, NULL, &e));
        for (int i = 0; i < workers; i++)
            OK(kv_push(one, &key, 1, &a, NULL, &e));
        OK(kv_wait(s, &e));
        OK(kv_barrier(s, &e));
        OK(kv_pull(one, &key, 1, &b, NULL, &e));
        OK(kv_pull(s, &key, 1, &a, NULL, &e));
        OK(kv_array_read(a, &x, &e));
        OK(kv_array_read(b, &y, &e));
        MUST(memcmp(x, y, (size_t)shapes[LAST].rows * sizeof(float)) == 0);
    }
}

/* ---- Many ---- */

static void check_many_keys(void)
{
    enum { N = 20000 };
    own_kv *s = make("dist_sync");
    kv_key *keys = calloc(N, sizeof *keys);
    kv_array **a = calloc(N, sizeof *a), **outs = calloc(N, sizeof *outs);
    MUST(keys && a && outs);
    for (int i = 0; i < N; i++) {
        keys[i].id = i;
        a[i] = filled(KV_FLOAT32, 1, 4, i % 1000 + rank);
        outs[i] = filled(KV_FLOAT32, 1, 4, -1);
    }
    OK(kv_init(s, keys, N, a, NULL, &e));
    OK(kv_push(s, keys, N, a, NULL, &e));
    OK(kv_pull(s, keys, N, outs, NULL, &e));
    OK(kv_wait(s, &e));
    for (int i = 0; i < N; i++) {
        MUST(all_are(outs[i], i % 1000 * workers + workers * (workers - 1) / 2));
        kv_array_unref(a[i]);
        kv_array_unref(outs[i]);
    }
    free(keys);
    free(a);
    free(outs);
}

/* ---- Where keys live ---- */

/* Of the ranks that serve. */
typedef struct spread {
    int64_t least, most, all;
} spread;

static int see_rank(void *arg, const kv_field *fields, int n, kv_err *e)
{
    spread *x = arg;
    (void)e;
    for (int i = 0; i < n; i++) {
        if (strcmp(fields[i].name, "bytes") != 0 || fields[i].number < 0)
            continue;
        int64_t bytes = fields[i].number;
        x->least = x->all == 0 || bytes < x->least ? bytes : x->least;
        x->most = bytes > x->most ? bytes : x->most;
        x->all += bytes;
    }
    return KV_OK;
}

/* Keys with fewer parts than servers go around: no server has more than another by more than the
 * bytes of two records. */
static void check_balance(void)
{
    own_kv *s = make("dist_sync");
    spread x = {0};
    int64_t all = 0;
    for (int i = 0; i < 60; i++) {
        int64_t n = 1 + i * 7919 % 1000 * (i % 9 == 0 ? 400 : 20);
        all += n;
        init(s, number(i), filled(KV_FLOAT32, n, 1, 0));
    }
    OK(kv_barrier(s, &e));
    OK(kv_describe(s, "cluster", see_rank, &x, &e));
    MUST(x.all == all * 4);
    MUST(x.most - x.least <= 2 * (256 << 10));
    OK(kv_barrier(s, &e));
}

/* ---- Running ---- */

static const check checks[] = {
    {"default", check_default},
    {"float16", check_float16},
    {"rows", check_rows},
    {"rows-of-zeros", check_rows_of_zeros},
    {"rows-behind", check_rows_behind},
    {"many-rows", check_many_rows},
    {"step", check_step},
    {"2bit", check_2bit},
    {"1bit", check_1bit},
    {"random-codes", check_random_codes},
    {"pulled-codes", check_pulled_codes},
    {"init", check_init},
    {"init-by-one", check_init_by_one},
    {"init-behind-push", check_init_behind_push},
    {"made-by-push", check_made_by_push},
    {"device", check_device},
    {"in-place", check_in_place},
    {"crossed", check_crossed},
    {"overwrite", check_overwrite},
    {"refused", check_refused},
    {"async-refused", check_async_refused},
    {"training", check_training},
    {"whole", check_whole},
    {"whole-from-file", check_whole_from_file},
    {"async", check_async},
    {"async-shared", check_async_shared},
    {"balance", check_balance},
    {"many-keys", check_many_keys},
};

int main(int argc, char **argv)
{
    own_kv *store = make("dist_sync");
    rank = kv_rank(store);
    workers = kv_num_workers(store);
    rounds = workers > 2 ? 3 : 4;
    side = must_side();
    sizes[2].rows = sizes[2].columns = side + 11;
    sizes[3].rows = sizes[3].columns = side;
    shapes[3].rows = side * 5 / 2;
    shapes[4].rows = side * side * 25 / 36 + 3;
    run_checks(argc, argv, checks, sizeof checks / sizeof *checks);
    return 0;
}
