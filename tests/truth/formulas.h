/* The optimizers, as formulas on numbers with bounds.
 *
 * Written from the published definitions of MXNet 1.9.1's optimizers (and of AdamW, AdaBelief and
 * LANS), not from the rules of src/optimizers. Numbers that the host knows are binary64 and are
 * rounded once where they meet elements; every written operation of elements is one rounding. */
#pragma once

#include <stdint.h>

#include "bounded.h"

/* Parameters, by their names; a flag is 0 or 1, and none is nan. */
#define TRUTH_PARAMS(X)                                                                            \
    X(LEARNING_RATE, learning_rate)                                                                \
    X(WD, wd)                                                                                      \
    X(RESCALE_GRAD, rescale_grad)                                                                  \
    X(CLIP_GRADIENT, clip_gradient)                                                                \
    X(MOMENTUM, momentum)                                                                          \
    X(LAZY_UPDATE, lazy_update)                                                                    \
    X(WD_LH, wd_lh)                                                                                \
    X(LAMDA, lamda)                                                                                \
    X(BETA1, beta1)                                                                                \
    X(BETA2, beta2)                                                                                \
    X(EPSILON, epsilon)                                                                            \
    X(EPS, eps)                                                                                    \
    X(ETA, eta)                                                                                    \
    X(MOMENTUM_CORRECTION, momentum_correction)                                                    \
    X(LOWER_BOUND, lower_bound)                                                                    \
    X(UPPER_BOUND, upper_bound)                                                                    \
    X(BIAS_CORRECTION, bias_correction)                                                            \
    X(CORRECT_BIAS, correct_bias)                                                                  \
    X(RHO, rho)                                                                                    \
    X(GAMMA1, gamma1)                                                                              \
    X(GAMMA2, gamma2)                                                                              \
    X(CENTERED, centered)                                                                          \
    X(CLIP_WEIGHTS, clip_weights)                                                                  \
    X(LAMDA1, lamda1)                                                                              \
    X(BETA, beta)                                                                                  \
    X(SCHEDULE_DECAY, schedule_decay)                                                              \
    X(WARMUP_STRATEGY, warmup_strategy)                                                            \
    X(WARMUP_EPOCHS, warmup_epochs)                                                                \
    X(BATCH_SCALE, batch_scale)                                                                    \
    X(UPDATES_PER_EPOCH, updates_per_epoch)                                                        \
    X(BEGIN_EPOCH, begin_epoch)

typedef enum truth_param {
#define TRUTH_ENUM(upper, name) TP_##upper,
    TRUTH_PARAMS(TRUTH_ENUM)
#undef TRUTH_ENUM
        TRUTH_NPARAMS
} truth_param;

extern const char
    *const truth_strategies[5]; /* of WARMUP_STRATEGY: linear power2 sqrt lars other */

#define TRUTH_STATES 3

/* A key: its elements, `row` of them in each row, and its states. */
typedef struct truth_key {
    int64_t n, row, count;
    bounded *w, *state[TRUTH_STATES], *g;
    const bool *present; /* of the rows, for a row_sparse gradient; else NULL */
    bool sparse;         /* the weight is row_sparse */
    bool began;          /* there was an update */
    int64_t seen;        /* gradients, of LBSGD */
    const char *name;
    uint64_t noise; /* the seed of its random numbers */
} truth_key;

/* An update of one key: the numbers that are known when it begins, and those that the optimizer
 * keeps for all keys. */
typedef struct truth_update {
    kv_dtype type; /* float32 or float64: in which elements are computed */
    double p[TRUTH_NPARAMS];
    double lr, wd; /* of the key */
    double base_lr;
    double *last_lr;     /* LARS: the rate before; 0: none */
    bounded *m_schedule; /* Nadam */
} truth_update;

typedef struct truth_default {
    truth_param which;
    double value;
} truth_default;

typedef struct truth_optimizer {
    const char *name;
    void (*update)(const truth_update *u, truth_key *k);
    double learning_rate; /* the default; nan: that of all, 0.01, and a schedule keeps its own */
    bool no_wd, two_axes, no_count, counts_after;
    bool by_names; /* wd is 0 for names without _weight; else without _weight, _gamma */
    truth_default params[8];
    int nparams;
} truth_optimizer;

extern const truth_optimizer truth_optimizers[];
extern const int truth_noptimizers;
