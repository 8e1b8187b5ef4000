/* Optimizers written by hand: one loop of intrinsics each, which reads every array once and does
 * the operations of the rule, each rounded by itself. Where divisions and roots take longer than
 * the memory, such a loop is the limit.
 */
#pragma once

#include <stdint.h>

enum { HAND_STATES = 3, HAND_NUMBERS = 12 };

/* Elements of a weight, its gradient and the states, in the order of the rule. */
typedef struct hand_arrays {
    float *w, *state[HAND_STATES];
    const float *g;
} hand_arrays;

typedef void hand_loop(const hand_arrays *a, const float *k, int64_t n);

typedef struct hand {
    const char *name; /* of the optimizer */
    int nstates;
    /* The numbers that update t (from 1 on, each once and in order) reads, with the parameters that
     * the optimizer has when none is given. */
    void (*numbers)(float *k, int64_t t);
    hand_loop *avx2, *avx512;
} hand;

/* NULL where none is written, for the optimizer or for this processor. */
const hand *hand_find(const char *name);

/* Update t of n elements, with the pool's threads. */
void hand_run(const hand *h, const hand_arrays *a, int64_t n, int64_t t);
