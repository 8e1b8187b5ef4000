/* Looking through tensors for values that a training or a broken copy leaves behind. */
#pragma once

#include "checkpoint/checkpoint.h"

/* The numbers of one tensor, counted by kind. */
typedef struct tensor_values {
    int64_t nans, infs; /* elements; of C64 the parts, of which an element has two */
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
