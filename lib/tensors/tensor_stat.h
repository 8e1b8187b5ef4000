/* Statistics of tensors, in one pass over their data.
 *
 * Least, largest, mean and deviation are of the finite elements. Sums are float64, of deviations
 * from the first finite element of each piece of a tensor (tensors/walk.h), in lanes in a fixed
 * order; pieces are joined in their order by the formula of Chan, Golub and LeVeque (1979). So bits
 * do not depend on threads. The first element is at most sqrt(n) deviations from the mean of n, so
 * the relative error of the variance of a piece of 2^17 elements is below 2^17 * 2^-52 in the worst
 * case, and each piece that is joined adds a few 2^-53.
 */
#pragma once

#include "checkpoint/checkpoint.h"

/* An element: integers exactly. */
typedef struct stat_number {
    bool is_integer, negative;
    uint64_t magnitude; /* of an integer */
    double x;           /* of any other */
} stat_number;

typedef struct tensor_stat {
    bool has_numbers; /* false for C64, quantised types and no numbers: only elements is set */
    int64_t elements, finite, zeros, nan, inf;
    stat_number min, max, absmax; /* when finite > 0, as are the next two */
    double mean, std;             /* std: the root of the mean of the squares, ÷ n */
} tensor_stat;

/* Returns true if a type has numbers to look at. */
bool tensor_stat_can(tensor_type t);

/* The statistics of n tensors of c, by their numbers. progress: as in a walk, or NULL. Errors:
 * those of a walk. */
int tensor_stats(tensor_stat *out, checkpoint *c, const int64_t *tensors, int64_t n,
                 void (*progress)(void *arg, int64_t done, int64_t all), void *arg, kv_err *e);

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Looking through tensors for values that a training or a broken copy leaves behind. */

/* The numbers of one tensor, counted by kind. */
typedef struct tensor_values {
    int64_t nans, infs; /* elements; of C64 the parts, two an element */
    int64_t first_nan, first_inf; /* the first of these elements, where there are any */
    int64_t odd_bools;  /* bytes of BOOL data that are neither 0 nor 1 */
    bool zero;          /* there are elements, and all are 0 (-0 too) */
} tensor_values;

/* Looks at n tensors of a checkpoint, by their numbers in it, on all threads. Of quantised types
 * only zero is looked for: a block whose bytes are all 0 holds nothing but 0. progress: NULL or as
 * walk.h says. Errors: those of walk_run. */
int tensor_check_all(tensor_values *values, checkpoint *c, const int64_t *numbers, int64_t n,
                     void (*progress)(void *arg, int64_t done, int64_t all), void *progress_arg,
                     kv_err *e);
