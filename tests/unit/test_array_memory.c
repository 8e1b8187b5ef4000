/* Operations on arrays that cannot end: each allocation fails once alone, and once with all that
 * follow; or the work is to end early from each question on (base/stop.h). The error says which,
 * the result is NULL, and the next call gives what it gave before. */
#include <stdatomic.h>

#include "array/arrange.h"
#include "array/dot.h"
#include "array/reduce.h"
#include "array/slice.h"
#include "array/sort.h"
#include "array/sparse.h"
#include "base/stop.h"
#include "test_array.h"

enum { RESULTS = 4, CALLS_MOST = 200, QUESTIONS_MOST = 2000 };

/* The operands of all operations. */
typedef struct operands {
    kv_array *a;       /* 6 x n float32 */
    kv_array *line;    /* as a vector */
    kv_array *cube;    /* as 2 x 3 x n */
    kv_array *row;     /* n float32 */
    kv_array *rows[2]; /* row_sparse, of the shape of a */
    kv_array *mask, *ids;
} operands;

typedef int operation(kv_array **out, const operands *x, kv_err *e);

#define OPERATION(name, call)                                                                      \
    static int name(kv_array **out, const operands *x, kv_err *e)                                  \
    {                                                                                              \
        return call;                                                                               \
    }

OPERATION(sorted, sort_array(out, x->a, SORT_VALUES, 0, false, e))
OPERATION(order, sort_array(out, x->a, SORT_INDICES, -1, true, e))
OPERATION(quantiles, sort_quantiles(out, x->a, (double[]){0, 0.3, 1}, 3, 0, e))
OPERATION(unique, sort_unique(&out[0], &out[1], &out[2], &out[3], x->a, e))
OPERATION(picked, pick_ids(out, x->ids, 0, 6, 40, e))
OPERATION(masked, pick_mask(out, x->mask, 1, e))

static int sliced(kv_array **out, const operands *x, kv_err *e)
{
    array_range r[] = {{.ids = x->ids}, {.has_from = true, .from = 3, .step = 2}};
    return array_slice(out, x->a, r, 2, e);
}

OPERATION(sliced_by_mask, array_slice(out, x->a, &(array_range){.ids = x->mask}, 1, e))
OPERATION(deviation, reduce_array(out, x->a, REDUCE_STD, (int64_t[]){0}, 1, NULL, e))
OPERATION(places, reduce_array(out, x->a, REDUCE_ARGMAX, (int64_t[]){1}, 1, NULL, e))
OPERATION(running, scan_sum(out, x->a, 0, KV_FLOAT64, e))
OPERATION(transposed, arrange_transpose(out, x->a, NULL, 2, e))
OPERATION(joined, arrange_concat(out, (kv_array *[]){x->a, x->a}, 2, 1, KV_FLOAT16, e))
OPERATION(stacked, arrange_stack(out, (kv_array *[]){x->a, x->a}, 2, 0, KV_FLOAT64, e))
OPERATION(repeated, arrange_repeat(out, x->a, 3, 1, e))
OPERATION(tiled, arrange_tile(out, x->a, (int64_t[]){2, 3}, 2, e))
OPERATION(sorted_lines, sort_array(out, x->line, SORT_VALUES, 0, true, e))
OPERATION(quantiles_of_all, sort_quantiles(out, x->line, (double[]){0.5}, 1, 0, e))
OPERATION(running_line, scan_sum(out, x->line, 0, KV_FLOAT32, e))
OPERATION(broad, arrange_broadcast(out, x->row, 2, (int64_t[]){5, kv_array_size(x->row)}, e))
OPERATION(reshaped, arrange_reshape(out, x->a, 2, (int64_t[]){-1, 6}, e))
OPERATION(zeros, arrange_zeros(out, KV_FLOAT64, 2, kv_array_shape(x->a), cpu0, e))
OPERATION(halves, arrange_copy(out, x->a, KV_FLOAT16, cpu0, e))

static int product(kv_array **out, const operands *x, kv_err *e)
{
    own_array *turned = NULL;
    int rc = arrange_transpose(&turned, x->a, NULL, 2, e);
    if (!rc)
        rc = dot_arrays(out, x->a, turned, KV_FLOAT32, e);
    return rc;
}

OPERATION(product_of_integers, dot_arrays(out, x->a, x->row, KV_INT32, e))
OPERATION(product_of_halves, dot_arrays(out, x->row, x->row, KV_BFLOAT16, e))
OPERATION(over_two_axes, reduce_array(out, x->cube, REDUCE_MAX, (int64_t[]){0, 2}, 2, NULL, e))
OPERATION(any_over_axes, reduce_array(out, x->cube, REDUCE_ANY, (int64_t[]){0, 2}, 2, NULL, e))

static int joined_places(kv_array **out, const operands *x, kv_err *e)
{
    kv_array *more = NULL, *other = NULL;
    int rc = pick_ids(&more, x->ids, 0, 6, 40, e);
    if (!rc)
        rc = kv_array_view(&other, more, 2, (int64_t[]){3, 1}, e);
    if (!rc && !(rc = pick_join(out, more, e))) {
        more = NULL;
        rc = pick_join(out, other, e);
        other = NULL;
    } else if (!other) {
        kv_array_unref(more);
    }
    if (rc)
        kv_array_unref(*out);
    if (rc)
        *out = NULL;
    return rc;
}

static int indices(kv_array **out, const operands *x, kv_err *e)
{
    own_array *at = NULL;
    int rc = pick_ids(&at, x->ids, 0, 6, 40, e);
    if (!rc)
        rc = pick_index(out, at, 6, 40, e);
    return rc;
}

/* Into a copy, which is not looked at after a failure. */
static int assign(kv_array **out, const operands *x, const array_range *to, kv_array *from,
                  kv_err *e)
{
    kv_array *made = NULL;
    int rc = kv_array_dup(&made, x->a, KV_FLOAT32, cpu0, e);
    if (!rc)
        rc = array_assign_slice(made, to, 1, from, e);
    if (rc)
        kv_array_unref(made);
    else
        *out = made;
    return rc;
}

OPERATION(assigned, assign(out, x, &(array_range){.has_from = true, .from = 4}, x->row, e))
OPERATION(assigned_by_ids, assign(out, x, &(array_range){.ids = x->ids}, x->row, e))

/* What a row_sparse result holds. Takes it. */
static int dense(kv_array **out, kv_array *rows, int rc, kv_err *e)
{
    if (!rc)
        rc = kv_array_to_dense(out, rows, e);
    kv_array_unref(rows);
    return rc;
}

#define ROWS(name, make)                                                                           \
    static int name(kv_array **out, const operands *x, kv_err *e)                                  \
    {                                                                                              \
        kv_array *made = NULL;                                                                     \
        int rc = make;                                                                             \
        return dense(out, made, rc, e);                                                            \
    }

ROWS(rows_of, kv_array_to_sparse(&made, x->a, e))
ROWS(rows_added, sparse_sum(&made, x->rows, 2, KV_FLOAT64, cpu0, e))
ROWS(rows_as_doubles, kv_array_dup(&made, x->rows[0], KV_FLOAT64, cpu0, e))
OPERATION(row_parts, sparse_parts(&out[0], &out[1], x->rows[1], e))

static operation *const operations[] = {
    sorted, order, quantiles, unique, picked, masked, sliced, sliced_by_mask, deviation, places,
    running, transposed, joined, stacked, repeated, tiled, sorted_lines, quantiles_of_all,
    running_line, broad, reshaped, zeros, halves, product, product_of_integers, product_of_halves,
    over_two_axes, any_over_axes, joined_places, indices, assigned, assigned_by_ids, rows_of,
    rows_added, rows_as_doubles, row_parts};

static operands operands_of(int64_t n)
{
    int64_t shape[] = {6, n};
    operands x = {.a = array_numbers(2, shape, KV_FLOAT32),
                  .line = array_numbers(1, (int64_t[]){6 * n}, KV_FLOAT32),
                  .cube = array_numbers(3, (int64_t[]){2, 3, n}, KV_FLOAT32),
                  .row = array_numbers(1, &n, KV_FLOAT32),
                  .ids = array_vector(KV_INT64, 3, (double[]){5, -1, 0})};
    CHECK_OK(kv_array_dup(&x.mask, x.a, KV_BOOL, cpu0, &e));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(kv_array_new_sparse(&x.rows[i], KV_FLOAT32, 2, shape, 2, (int64_t[]){i, 4}, cpu0,
                                     &e));
        float *data = row_data(x.rows[i]);
        for (int64_t k = 0; k < 2 * n; k++)
            data[k] = (float)(k + i);
    }
    return x;
}

static void operands_release(operands *x)
{
    kv_array *const all[] = {x->a,       x->line,    x->cube, x->row,
                             x->rows[0], x->rows[1], x->mask, x->ids};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        kv_array_unref(all[i]);
}

static bool same(kv_array *const *a, kv_array *const *b)
{
    for (int i = 0; i < RESULTS; i++) {
        if (!a[i] != !b[i])
            return false;
        if (a[i] && (kv_array_bytes(a[i]) != kv_array_bytes(b[i]) ||
                     memcmp(array_elements(a[i]), array_elements(b[i]),
                            (size_t)kv_array_bytes(a[i])) != 0))
            return false;
    }
    return true;
}

static void release(kv_array **results)
{
    for (int i = 0; i < RESULTS; i++)
        kv_array_unref(results[i]);
}

static atomic_int questions;
static int said_no; /* to so many of them */

static int pending(void)
{
    return atomic_fetch_add(&questions, 1) >= said_no;
}

/* Ends an operation at each of its allocations, which fails alone (-1) or with those behind it (1),
 * or at some of its questions (0). Returns how many there were. */
static int64_t end_each(operation *run, const operands *x, int sign, kv_array *const *expected)
{
    for (int64_t n = 1;; n += sign ? 1 : 1 + n / 4) {
        kv_array *got[RESULTS] = {NULL};
        kv_err e = {0};
        said_no = (int)n - 1;
        questions = 0;
        stop_ask(sign ? NULL : pending);
        mem_fail_at(sign * n);
        int rc = run(got, x, &e);
        mem_fail_at(0);
        stop_ask(NULL);
        CHECK(n < (sign ? CALLS_MOST : QUESTIONS_MOST));
        if (rc == KV_OK) {
            CHECK(sign || questions <= said_no);
            CHECK(same(got, expected));
            release(got);
            return n - 1;
        }
        CHECK(e.code == rc && rc == (sign ? KV_E_MEMORY : KV_E_INTERRUPTED));
        CHECK(sign || strcmp(e.text, "interrupted") == 0);
        for (int i = 0; i < RESULTS; i++)
            CHECK(!got[i]);
    }
}

/* How many operations of arrays of 6 x n ended. */
static int end_all(int64_t n, int sign)
{
    int ended = 0;
    operands x = operands_of(n);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        kv_array *expected[RESULTS] = {NULL};
        CHECK_OK(operations[i](expected, &x, &e));
        ended += end_each(operations[i], &x, sign, expected) > 0;
        release(expected);
    }
    operands_release(&x);
    return ended;
}

TEST(array_memory_of_operations)
{
    CHECK_INT(end_all(40, 1), sizeof operations / sizeof *operations);
    end_all(40, -1);
}

/* Of lines that are longer than what is worked on between two questions, and of a line that threads
 * share. */
TEST(array_stop_of_operations)
{
    CHECK(end_all(STOP_EVERY / 2 + 5, 0) >= 25);
}
