/* The loops of comparisons: what two blocks of numbers differ by.
 *
 * Sums are float64 in DIFF_LANES lanes, as those of stat_loops.h: their bits are the same on every
 * processor. */
#ifndef TENSORS_DIFF_LOOPS_H
#define TENSORS_DIFF_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "tensors/stat_loops.h"

#define DIFF_LANES STAT_LANES
#define DIFF_BLOCK 1024 /* elements: what is made of two blocks of them stays in the L1 cache */

/* Sums over pairs of numbers a, b. All zero is none. */
typedef struct diff_lanes {
    double differences[DIFF_LANES];                           /* of (a - b)^2 */
    double a[DIFF_LANES], b[DIFF_LANES], product[DIFF_LANES]; /* of a^2, b^2, a * b */
} diff_lanes;

/* Adds n pairs of finite numbers, a multiple of DIFF_LANES; returns the largest |a - b|. */
double diff_add_f32(diff_lanes *s, const float *a, const float *b, int64_t n);
double diff_add_f64(diff_lanes *s, const double *a, const double *b, int64_t n);

/* Compares n words of 8 bytes, at any addresses; n is a multiple of 8. Copies those of a that are
 * the same in b, with zeros in the place of others, whose numbers go to `others`; returns how many.
 */
int64_t diff_words(void *same, uint16_t *others, const void *a, const void *b, int64_t n);

/* The sum of the squares of n numbers, a multiple of DIFF_LANES; of BF16 codes, a multiple of 32 at
 * any address. The squares of two BF16 are added in float32, where each is exact: a sum below
 * 2^-70 may lack some. Not finite: a number is not, or a square is too large. */
double diff_squares_f32(const float *x, int64_t n);
double diff_squares_f64(const double *x, int64_t n);
double diff_squares_bf16(const void *codes, int64_t n);

/* How many of n pairs of finite numbers have |a - b| > atol + rtol * |b|. */
int64_t diff_beyond_f32(const float *a, const float *b, int64_t n, double rtol, double atol);
int64_t diff_beyond_f64(const double *a, const double *b, int64_t n, double rtol, double atol);

/* How many of n elements of 1, 2, 4 or 8 bytes, at any address, have other bits. */
int64_t diff_unequal(const void *a, const void *b, int64_t n, int bytes);

/* Codes of sign and magnitude, of `bits` bits (4 to 64) in 1, 2, 4 or 8 bytes each, at any address.
 * As integers in the order of their numbers, next to each other where no number lies between; both
 * zeros are 0. And the largest distance of n pairs of such integers. */
void diff_order(int64_t *out, const void *codes, int64_t n, int bits, int bytes);
uint64_t diff_farthest(const void *a, const void *b, int64_t n, int bits, int bytes);

#endif
