/* Updates of optimizers that reduce, as one would write them by hand for AVX-512: the same
 * operations in the same order as the rules of src/optimizers, so that all bits are the same, in as
 * few passes over memory. They say what the processor allows where the memory is not what limits.
 */
#pragma once

#include <stdint.h>

/* Zeros behind the n elements of each array, beside eight rows. */
#define LOOPS_PAD (8 * 4096)

typedef struct loops_arrays {
    float *w, *state[2]; /* groupadagrad: state[0] has one number a row */
    float *kept[2];      /* memory for what one pass leaves to the next */
    const float *g;
    float *blocks[3]; /* memory for sums, one for each 4096 elements of an array */
    int64_t n, row;   /* n is a whole number of rows */
} loops_arrays;

/* Update number t, from 1 on, with the parameters that the rules have by default. */
typedef void optimizer_loop(const loops_arrays *a, int64_t t);

/* The loop of an optimizer; NULL if there is none, or if the processor has no AVX-512. */
optimizer_loop *optimizer_loop_find(const char *name);
