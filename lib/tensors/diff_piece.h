/* The comparison of one piece of two tensors, and the sums that pieces are joined by. tensor_diff.h
 * says when two elements are equal. */
#pragma once

#include "tensors/tensor_diff.h"
#include "tensors/walk.h"

/* The differences of a piece, or of several pieces. Begin with DIFF_SUMS_NONE. */
typedef struct diff_sums {
    int64_t unequal, finite; /* elements; pairs of finite numbers */
    int64_t where, first;    /* of `most`, and of the first that is not equal; -1: none */
    double most;
    uint64_t most_int; /* instead of `most` where diff_is_exact */
    uint64_t ulps;
    double differences, a, b, product; /* sums of (a - b)^2, a^2, b^2, a * b */
    bool same;                         /* by its bytes: nothing else was looked at */
} diff_sums;

/* Powers of two by which numbers are multiplied before they are squared. */
typedef struct diff_scales {
    double differences, a, b;
} diff_scales;

#define DIFF_SUMS_NONE ((diff_sums){.where = -1, .first = -1})

bool diff_has_numbers(tensor_type t); /* false for quantised types, which are compared by bits */

/* Returns true if elements of these types have units in the last place in common. */
bool diff_has_ulps(tensor_type a, tensor_type b);

/* Returns true if differences of these types are integers: no float holds their numbers exactly. */
bool diff_is_exact(tensor_type a, tensor_type b);

/* Returns true if both sides of a piece, of types t, have the same type and bytes. */
bool diff_same_bytes(const tensor_type *t, const walk_piece *p);

/* Adds the differences of a piece to p. */
void diff_piece(diff_sums *p, const diff_options *o, const tensor_type *t, const walk_piece *piece);

/* The scales with which sums are to be made again, since float64 does not hold squares of the
 * numbers; all 1: they are right as they are. Then diff_scaled adds to p, of a piece, those sums
 * alone that have a scale: differences; or a, b and product, if one of them has. */
diff_scales diff_scales_of(const diff_sums *p, tensor_type a, tensor_type b);
void diff_scaled(diff_sums *p, const diff_scales *s, const tensor_type *t, const walk_piece *piece);

/* Adds those of p, a later piece of the same tensors, to all. */
void diff_join(diff_sums *all, const diff_sums *p);
