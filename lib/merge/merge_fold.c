/* A lane waits for its last addition, so there are enough of them to keep the processor busy. */
#include "merge/merge_fold.h"

#include "base/compiler.h"
#include "vm/kernel_fold.h"

/* Whole groups of lanes. */
#define LOOP(suffix, T, JOIN)                                                                      \
    CPU_CLONES static void fold_##suffix(double *restrict lane, const void *terms, int64_t n)      \
    {                                                                                              \
        const T *x = terms;                                                                        \
        double own[MERGE_LANES];                                                                   \
        for (int l = 0; l < MERGE_LANES; l++)                                                      \
            own[l] = lane[l];                                                                      \
        for (int64_t i = 0; i < n; i += MERGE_LANES)                                               \
            for (int l = 0; l < MERGE_LANES; l++)                                                  \
                own[l] = JOIN(own[l], (double)x[i + l]);                                           \
        for (int l = 0; l < MERGE_LANES; l++)                                                      \
            lane[l] = own[l];                                                                      \
    }

LOOP(sum_f32, float, kernel_fold_sum)
LOOP(max_f32, float, kernel_fold_max)
LOOP(min_f32, float, kernel_fold_min)
LOOP(sum_f64, double, kernel_fold_sum)
LOOP(max_f64, double, kernel_fold_max)
LOOP(min_f64, double, kernel_fold_min)

typedef void loop(double *restrict lane, const void *terms, int64_t n);

static loop *const loops[][PLAN_FOLDS] = {{fold_sum_f32, fold_max_f32, fold_min_f32},
                                          {fold_sum_f64, fold_max_f64, fold_min_f64}};

double merge_fold_lanes(plan_fold fold, const double *lanes)
{
    double all = lanes[0];
    for (int l = 1; l < MERGE_LANES; l++)
        all = kernel_fold_join(fold, all, lanes[l]);
    return all;
}

double merge_fold_chunk(plan_fold fold, bool wide, const void *terms, int64_t n)
{
    double lane[MERGE_LANES];
    int64_t whole = n - n % MERGE_LANES;
    for (int l = 0; l < MERGE_LANES; l++)
        lane[l] = kernel_fold_begin(fold);
    loops[wide][fold](lane, terms, whole);
    for (int64_t i = whole; i < n; i++)
        lane[i - whole] =
            kernel_fold_join(fold, lane[i - whole],
                            wide ? ((const double *)terms)[i] : (double)((const float *)terms)[i]);
    return merge_fold_lanes(fold, lane);
}
