/* Rules by steps: what reductions by rows and columns, products and turned matrices give, beside
 * loops that do the same one by one, at sizes around chunks and parts; the same bits for any number
 * of threads; and a lack of memory. */
#include <math.h>
#include <unistd.h>

#include "base/philox.h"
#include "base/xxh64.h"
#include "lang/parse.h"
#define SHARED_KV_ERR
#include "test.h"
#include "vm/rule.h"

/* It is filled by helpers, too. */
#undef WITH_KV_ERR
#define WITH_KV_ERR(check) check
static kv_err e;

/* A float64 key with its states, and the input of its update. */
typedef struct key {
    int64_t rows, columns;
    double *stored, *input, *states[3];
} key;

static double drawn(uint64_t i)
{
    return philox_uniform53(philox_at(5, PHILOX_FUNCTIONS, 0, i)) * 2 - 1;
}

static double *numbers(int64_t n, uint64_t from)
{
    double *x = mem_zalloc(n + 1, sizeof *x, NULL);
    CHECK(x != NULL);
    for (int64_t i = 0; i < n; i++)
        x[i] = drawn(from + (uint64_t)i);
    return x;
}

static key new_key(int64_t rows, int64_t columns)
{
    int64_t n = rows * columns;
    return (key){rows,
                 columns,
                 numbers(n, 1000),
                 numbers(n, 50000000),
                 {numbers(n, 3), numbers(n, 7), numbers(n, 9)}};
}

static void free_key(key *k)
{
    mem_free(k->stored);
    mem_free(k->input);
    for (int i = 0; i < 3; i++)
        mem_free(k->states[i]);
}

static const void *input_at(void *arg, int64_t from, int64_t n, void *room)
{
    (void)n, (void)room;
    return ((const key *)arg)->input + from;
}

/* fail_at: of the requests for memory, or 0. */
static int make(const char *rule, const key *k, arena *memory, int fail_at, rule_update *u)
{
    source text = {.text = rule, .len = (uint32_t)strlen(rule), .line = 1, .col = 1};
    host values[16], held[PLAN_MAX_STATES] = {{0}};
    rule_ast *r = MADE(rule_ast, parse_rule, &text, memory);
    CHECK_OK(rule_check(r, &text, memory, &e));
    CHECK_OK(rule_bind(r, NULL, NULL, NULL, 0, values, memory, &e));
    rule_given given = {.key = {7, NULL}, .t = 1, .dtype = KV_FLOAT64, .row = k->columns,
                        .size = k->rows * k->columns, .have = 7, .numbers = held};
    mem_fail_at(fail_at);
    int rc = rule_case_make(&(rule_binding){r, &text, values, NULL}, &given, true, u, NULL, &e);
    mem_fail_at(0);
    return rc;
}

static void update(const char *rule, key *k)
{
    own_arena memory = {0};
    rule_update u;
    CHECK_OK(make(rule, k, &memory, 0, &u));
    plan_arrays a = {.stored = k->stored, .stored_dtype = KV_FLOAT64,
                     .states = {k->states[0], k->states[1], k->states[2]},
                     .size = k->rows * k->columns, .row = k->columns, .input = input_at,
                     .input_dtype = KV_FLOAT64, .arg = k, .t = 1};
    void *scratch = mem_alloc_data(plan_scratch_bytes(u.plan, a.size, 0), &e);
    plan_run(u.plan, &a, scratch);
    mem_free_data(scratch);
    rule_update_release(&u);
}

/* ---- One by one ------------------------------------------------------------------------------ */

static void check_near(const double *got, const double *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        CHECK(fabs(got[i] - want[i]) <= 1e-9 * (1 + fabs(want[i])));
}

/* Of row i, or of column i, or of all: the sum, the largest and the smallest. */
typedef struct reduced {
    double sum, most, least;
} reduced;

static reduced reduce(const double *x, const key *k, int64_t row, int64_t column)
{
    reduced r = {0, -INFINITY, INFINITY};
    int64_t row_end = row < 0 ? k->rows : row + 1, end = column < 0 ? k->columns : column + 1;
    for (int64_t i = row < 0 ? 0 : row; i < row_end; i++)
        for (int64_t j = column < 0 ? 0 : column; j < end; j++) {
            double y = x[i * k->columns + j];
            r.sum += y;
            r.most = fmax(r.most, y);
            r.least = fmin(r.least, y);
        }
    return r;
}

static const char mixed[] =
    "{ state row r; state col c; state m; r += rowsum(input); c = c * 2 + colmin(stored); m += c; "
    "stored = m / max(abs(input)) + r * rowmax(m) + colmean(input) + mean(c) - min(r) }";

static void check_mixed(int64_t rows, int64_t columns)
{
    key got = new_key(rows, columns), was = new_key(rows, columns);
    double *row_most = numbers(rows, 0), *want = numbers(rows * columns, 0);
    double c_sum = 0, r_least = INFINITY, most = 0;
    update(mixed, &got);
    for (int64_t j = 0; j < columns; j++) {
        was.states[1][j] = was.states[1][j] * 2 + reduce(was.stored, &was, -1, j).least;
        c_sum += was.states[1][j];
    }
    for (int64_t i = 0; i < rows * columns; i++) {
        was.states[2][i] += was.states[1][i % columns];
        most = fmax(most, fabs(was.input[i]));
    }
    for (int64_t i = 0; i < rows; i++) {
        was.states[0][i] += reduce(was.input, &was, i, -1).sum;
        r_least = fmin(r_least, was.states[0][i]);
        row_most[i] = reduce(was.states[2], &was, i, -1).most;
    }
    for (int64_t j = 0; j < columns; j++) {
        double mean = reduce(was.input, &was, -1, j).sum / (double)rows;
        for (int64_t i = 0; i < rows; i++)
            want[i * columns + j] = was.states[2][i * columns + j] / most +
                                    was.states[0][i] * row_most[i] + mean +
                                    c_sum / (double)columns - r_least;
    }
    check_near(got.stored, want, rows * columns);
    check_near(got.states[0], was.states[0], rows);
    check_near(got.states[1], was.states[1], columns);
    check_near(got.states[2], was.states[2], rows * columns);
    mem_free(row_most);
    mem_free(want);
    free_key(&got);
    free_key(&was);
}

TEST(grid_reduces)
{
    check_mixed(1, 1);
    check_mixed(3, 5);
    check_mixed(1, 4100);
    check_mixed(4100, 1);
    check_mixed(3, 9000);
    check_mixed(130, 71);
    check_mixed(700, 301);
}

/* x (n, k) times y (k, m), or times the turned y (m, k). */
static double *multiplied(const double *x, const double *y, int64_t n, int64_t k, int64_t m,
                          bool turned)
{
    double *z = mem_zalloc(n * m + 1, sizeof *z, NULL);
    for (int64_t i = 0; i < n; i++)
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < m; j++)
                z[i * m + j] += x[i * k + l] * (turned ? y[j * k + l] : y[l * m + j]);
    return z;
}

static void check_products(int64_t rows, int64_t columns)
{
    key got = new_key(rows, columns), was = new_key(rows, columns);
    double *a = multiplied(was.input, was.stored, rows, columns, rows, true), sum = 0;
    double *aa = multiplied(a, a, rows, rows, rows, false);
    update("{ a = matmul(input, T(stored)); b = a * 2 - matmul(a, a); x = matmul(b, input); "
           "stored = x + matmul(matmul(x, T(x)), stored) / (1 + abs(sum(b))) }",
           &got);
    for (int64_t i = 0; i < rows * rows; i++)
        sum += a[i] = a[i] * 2 - aa[i];
    double *x = multiplied(a, was.input, rows, rows, columns, false);
    double *xx = multiplied(x, x, rows, columns, rows, true);
    double *y = multiplied(xx, was.stored, rows, rows, columns, false);
    for (int64_t i = 0; i < rows * columns; i++)
        x[i] += y[i] / (1 + fabs(sum));
    check_near(got.stored, x, rows * columns);
    mem_free(a);
    mem_free(aa);
    mem_free(x);
    mem_free(xx);
    mem_free(y);
    free_key(&got);
    free_key(&was);
}

TEST(grid_multiplies)
{
    check_products(1, 1);
    check_products(3, 5);
    check_products(7, 2);
    check_products(1, 4100);
    check_products(130, 71);
    check_products(66, 300);
}

TEST(grid_is_nan_if_a_term_is)
{
    static const char rule[] = "{ stored = colmax(input) + 0 * rowmin(input) * mean(stored) }";
    key k = new_key(20, 30);
    for (int i = 0; i < 600; i++)
        k.input[i] = i;
    k.input[5 * 30 + 7] = NAN;
    update(rule, &k);
    for (int i = 0; i < 600; i++)
        CHECK(isnan(k.stored[i]) == (i / 30 == 5 || i % 30 == 7));
    free_key(&k);
}

TEST(grid_stores_wait_for_the_last_read)
{
    key got = new_key(3, 4), was = new_key(3, 4);
    double most = reduce(was.states[0], &was, -1, -1).most;
    update("{ state m; old = m; m = input; stored = old * max(old) }", &got);
    for (int i = 0; i < 12; i++) {
        CHECK(got.stored[i] == was.states[0][i] * most);
        CHECK(got.states[0][i] == was.input[i]);
    }
    free_key(&got);
    free_key(&was);
}

/* ---- Bits ------------------------------------------------------------------------------------ */

/* Sums of lanes and parts are rounded in an order of their own, which is a promise: trainings go on
 * with the same bits in later versions. */
TEST(grid_keeps_its_bits)
{
    static const int64_t sizes[][2] = {{3, 5}, {3, 9000}, {4100, 1}, {700, 301}};
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        key k = new_key(sizes[i][0], sizes[i][1]);
        update(mixed, &k);
        update("{ state row r; state col c; r = r * 0.5 + norm(stored) * rowmean(input); "
               "stored -= T(T(input * r)) / (1 + abs(colmax(stored) - c)) }",
               &k);
        bits = bits * 31 ^ xxh64(k.stored, k.rows * k.columns * (int64_t)sizeof *k.stored) ^
               xxh64(k.states[0], k.rows * (int64_t)sizeof(double));
        free_key(&k);
    }
    CHECK_INT(bits, 240857715201862983);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static uint64_t result_with(const char *threads)
{
    uint64_t *result = test_shared(sizeof *result);
    IN_CHILD(threads) {
        key k = new_key(900, 400);
        update(mixed, &k);
        update("{ stored = matmul(matmul(stored, T(stored)), input) / norm(rowsum(input)) }", &k);
        *result = xxh64(k.stored, 900 * 400 * sizeof *k.stored);
    }
    return *result;
}

TEST(grid_threads_change_no_bit)
{
    uint64_t one = result_with("1");
    CHECK(one != 0);
    CHECK(result_with("2") == one);
    CHECK(result_with("5") == one);
}

/* ---- No memory ------------------------------------------------------------------------------- */

TEST(grid_no_memory)
{
    key k = new_key(3, 4);
    int rc = KV_E_MEMORY, n = 0;
    for (n = 1; n < 200 && rc; n++) {
        own_arena memory = {0};
        rule_update u;
        rc = make(mixed, &k, &memory, n, &u);
        CHECK(rc == KV_OK || rc == KV_E_MEMORY);
        memset(&e, 0, sizeof e);
        if (!rc)
            rule_update_release(&u);
    }
    CHECK(rc == KV_OK && n > 10);
    free_key(&k);
}
