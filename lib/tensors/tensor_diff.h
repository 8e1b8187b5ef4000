/* The differences between two checkpoints, key by key, in one pass over the data of both. Where
 * keys differ in part, their equal pieces are read again, for the sums.
 *
 * Without a tolerance elements are equal when their bits are, and of other dtypes none is compared.
 * With one, elements of any dtypes with numbers are equal when |a - b| <= atol + rtol * |b|, or,
 * where the dtypes agree, when they are at most so many units in the last place apart; nan equals
 * nan, an infinity itself alone, -0 equals 0. Differences of integers are exact, also from floats.
 * Of C64 the parts are compared. Quantised types are compared by bits, block by block.
 *
 * The formula is computed in float64. Sums are of pairs of finite elements, in a fixed order:
 * bits do not depend on threads. They are float64, but for the squares of BF16 that are the same
 * on both sides, which are added by twos in float32: the cosine is off by less than 2^-24.
 */
#pragma once

#include "checkpoint/checkpoint.h"

typedef enum diff_state {
    DIFF_SAME,
    DIFF_ONLY_A,
    DIFF_ONLY_B,
    DIFF_SHAPE,
    DIFF_DTYPE,
    DIFF_VALUES
} diff_state;

typedef struct diff_options {
    bool tolerance; /* one of the next is given */
    double rtol, atol;
    bool has_ulps;
    uint64_t ulps;
    bool brief; /* only the states are asked for */
    enum { DIFF_BY_MAX, DIFF_BY_RMS, DIFF_BY_REL, DIFF_BY_ULPS, DIFF_BY_EQUAL,
           DIFF_BY_COSINE } sort;
} diff_options;

typedef struct tensor_difference {
    int64_t a, b; /* in: the numbers of the tensors; -1: there is none */
    const char *name; /* in: that of the key, for the caller */
    diff_state state;
    /* The rest is there with DIFF_VALUES, unless brief was asked for. */
    double equal;  /* the share of equal elements, 0 to 1 */
    int64_t where; /* the element with the largest difference, the first of several; where all
                      differences are 0, the first that is not equal; -1: unknown */
    bool has_numbers; /* false for quantised types: what follows is not there */
    bool is_integer;  /* both are: max_int is the largest |a - b|, else max_abs; nan when one of a
                         pair is nan, infinite when one is, which are the largest of all */
    double max_abs;
    uint64_t max_int;
    bool has_ulps; /* floats of one dtype, and a pair of them is finite */
    uint64_t ulps; /* the most units in the last place, of pairs without nan */
    int64_t left_out; /* pairs that rms, rel and cosine leave out, since one is not finite */
    /* Where max_abs is not finite, rel is max_abs; and where finite pairs do not differ either, so
     * is rms, and cosine is nan: they would look like those of equal numbers. */
    double rms;    /* the root of the mean of (a - b)^2; nan when no pair is finite */
    double rel;    /* the norm of a - b, by that of b; nan when no pair is finite */
    double cosine; /* of the angle between both; nan when one of them is all 0 */
    double size;   /* the number by which keys are sorted, infinite where it is unknown or nan */
} tensor_difference;

/* Fills in what stands behind a and b in n pairs. progress: as in a walk, or NULL. Errors: those of
 * a walk. */
int tensor_diffs(tensor_difference *pairs, int64_t n, checkpoint *a, checkpoint *b,
                 const diff_options *o, void (*progress)(void *arg, int64_t done, int64_t all),
                 void *arg, kv_err *e);

/* Compares how much two differences matter, as qsort does: first keys that one side lacks, then
 * those of another shape or dtype, then those whose max_abs is not finite, then the largest in the
 * order of the options. 0: they are alike. */
int tensor_diff_order(const tensor_difference *x, const tensor_difference *y);
