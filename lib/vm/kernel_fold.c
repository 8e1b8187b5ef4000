/* The loops of reductions, a variant for each type and way. Sums are float64, so the products and
 * squares of float32 that rules add up lose nothing before the end. A lane waits for its last
 * addition: the lanes of merges are enough to keep the processor busy. */
#include "vm/kernel_fold.h"

#include <math.h>

#include "base/compiler.h"

enum { FEW = 8, MANY = 32 };

double kernel_fold_begin(plan_fold fold)
{
    return fold == PLAN_SUM ? 0 : fold == PLAN_MAX ? -INFINITY : INFINITY;
}

double kernel_fold_join(plan_fold fold, double a, double b)
{
    return fold == PLAN_SUM   ? kernel_fold_sum(a, b)
           : fold == PLAN_MAX ? kernel_fold_max(a, b)
                              : kernel_fold_min(a, b);
}

/* Whole groups of lanes. */
#define GROUPS(name, lanes, T, JOIN)                                                               \
    static void name(double *restrict lane, const void *from, int64_t n)                           \
    {                                                                                              \
        const T *x = from;                                                                         \
        double own[lanes];                                                                         \
        for (int l = 0; l < (lanes); l++)                                                          \
            own[l] = lane[l];                                                                      \
        for (int64_t i = 0; i < n; i += (lanes))                                                   \
            for (int l = 0; l < (lanes); l++)                                                      \
                own[l] = JOIN(own[l], (double)x[i + l]);                                           \
        for (int l = 0; l < (lanes); l++)                                                          \
            lane[l] = own[l];                                                                      \
    }

/* These, and each number into the number at its place. */
#define LOOPS(suffix, T, JOIN)                                                                     \
    GROUPS(few_##suffix, FEW, T, JOIN)                                                             \
    CPU_CLONES GROUPS(many_##suffix, MANY, T, JOIN)                                                \
                                                                                                   \
    static void each_##suffix(double *each, const void *from, int64_t n)                           \
    {                                                                                              \
        const T *x = from;                                                                         \
        NO_CARRY for (int64_t i = 0; i < n; i++)                                                   \
            each[i] = JOIN(each[i], (double)x[i]);                                                 \
    }

LOOPS(sum_f32, float, kernel_fold_sum)
LOOPS(max_f32, float, kernel_fold_max)
LOOPS(min_f32, float, kernel_fold_min)
LOOPS(sum_f64, double, kernel_fold_sum)
LOOPS(max_f64, double, kernel_fold_max)
LOOPS(min_f64, double, kernel_fold_min)

typedef void loop(double *to, const void *from, int64_t n);

#define TABLE(what)                                                                                \
    static loop *const what[][PLAN_FOLDS] = {                                                      \
        [PROG_F32] = {what##_sum_f32, what##_max_f32, what##_min_f32},                             \
        [PROG_F64] = {what##_sum_f64, what##_max_f64, what##_min_f64}};

TABLE(few)
TABLE(many)
TABLE(each)

static double reduce(plan_fold fold, prog_type type, const void *x, int64_t n, int lanes)
{
    double lane[MANY];
    int64_t whole = n - n % lanes, bytes = type == PROG_F32 ? 4 : 8;
    for (int l = 0; l < lanes; l++)
        lane[l] = kernel_fold_begin(fold);
    (lanes == FEW ? few : many)[type][fold](lane, x, whole);
    each[type][fold](lane, (const char *)x + whole * bytes, n - whole);
    double all = lane[0];
    for (int l = 1; l < lanes; l++)
        all = kernel_fold_join(fold, all, lane[l]);
    return all;
}

double kernel_fold_row(plan_fold fold, prog_type type, const void *x, int64_t n)
{
    return reduce(fold, type, x, n, FEW);
}

double kernel_fold_chunk(plan_fold fold, prog_type type, const void *x, int64_t n)
{
    return reduce(fold, type, x, n, MANY);
}

void kernel_fold_each(plan_fold fold, prog_type type, double *to, const void *x, int64_t n)
{
    each[type][fold](to, x, n);
}
