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

/* All numbers: whole groups of lanes, then one number of each lane, then the lanes in order. */
#define LANES(name, lanes, T, JOIN, FIRST)                                                         \
    static double name(const void *from, int64_t n)                                                \
    {                                                                                              \
        const T *x = from;                                                                         \
        double own[lanes], lane[lanes], all;                                                       \
        int64_t i = 0;                                                                             \
        for (int l = 0; l < (lanes); l++)                                                          \
            own[l] = FIRST;                                                                        \
        for (; i + (lanes) <= n; i += (lanes))                                                     \
            for (int l = 0; l < (lanes); l++)                                                      \
                own[l] = JOIN(own[l], (double)x[i + l]);                                           \
        for (int l = 0; l < (lanes); l++)                                                          \
            lane[l] = own[l]; /* a copy: own stays in registers */                                 \
        for (int l = 0; i + l < n; l++)                                                            \
            lane[l] = JOIN(lane[l], (double)x[i + l]);                                             \
        all = lane[0];                                                                             \
        for (int l = 1; l < (lanes); l++)                                                          \
            all = JOIN(all, lane[l]);                                                              \
        return all;                                                                                \
    }

/* These, and each number into the number at its place. */
#define LOOPS(suffix, T, JOIN, FIRST)                                                              \
    LANES(few_##suffix, FEW, T, JOIN, FIRST)                                                       \
    CPU_CLONES LANES(many_##suffix, MANY, T, JOIN, FIRST)                                          \
                                                                                                   \
        static void each_##suffix(double *each, const void *from, int64_t n)                       \
    {                                                                                              \
        const T *x = from;                                                                         \
        NO_CARRY for (int64_t i = 0; i < n; i++) each[i] = JOIN(each[i], (double)x[i]);            \
    }

LOOPS(sum_f32, float, kernel_fold_sum, 0)
LOOPS(max_f32, float, kernel_fold_max, -INFINITY)
LOOPS(min_f32, float, kernel_fold_min, INFINITY)
LOOPS(sum_f64, double, kernel_fold_sum, 0)
LOOPS(max_f64, double, kernel_fold_max, -INFINITY)
LOOPS(min_f64, double, kernel_fold_min, INFINITY)

typedef double reduction(const void *from, int64_t n);
typedef void addition(double *each, const void *from, int64_t n);

#define TABLE(type, what)                                                                          \
    static type *const what[][PLAN_FOLDS] = {                                                      \
        [PROG_F32] = {what##_sum_f32, what##_max_f32, what##_min_f32},                             \
        [PROG_F64] = {what##_sum_f64, what##_max_f64, what##_min_f64}};

TABLE(reduction, few)
TABLE(reduction, many)
TABLE(addition, each)

double kernel_fold_row(plan_fold fold, prog_type type, const void *x, int64_t n)
{
    return few[type][fold](x, n);
}

double kernel_fold_chunk(plan_fold fold, prog_type type, const void *x, int64_t n)
{
    return many[type][fold](x, n);
}

void kernel_fold_each(plan_fold fold, prog_type type, double *to, const void *x, int64_t n)
{
    each[type][fold](to, x, n);
}
