/* The loops of statistics and comparisons: what one pass over numbers, or over two blocks of them,
 * finds.
 *
 * Sums are float64 in STAT_LANES lanes: the sum of lane j has the elements j, j + STAT_LANES, and
 * so on, in their order, whatever the vectors of the processor, so their bits are the same
 * everywhere. They are sums of deviations from a number near the mean, and of their squares.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define STAT_LANES 16
#define STAT_BLOCK 4096 /* elements: a block of float64 stays in the L1 cache */

/* Begins with sums of 0, lowest of infinity and highest of -infinity. */
typedef struct stat_lanes {
    double sum[STAT_LANES], squares[STAT_LANES];
    double lowest, highest;
    int64_t zeros;
} stat_lanes;

/* Returns true if all of n numbers are finite. */
int stat_finite_f32(const float *x, int64_t n);
int stat_finite_f64(const double *x, int64_t n);

/* Copies n numbers, with `instead` in the place of those that are not finite, which are counted. */
void stat_clean_f32(float *out, const float *x, int64_t n, float instead, int64_t *nan,
                    int64_t *inf);
void stat_clean_f64(double *out, const double *x, int64_t n, double instead, int64_t *nan,
                    int64_t *inf);

/* Looks at n >= 1 BF16 codes, at any address and at most STAT_BLOCK: whether all are finite; if so,
 * sets the least, the largest and how many are zero. */
int stat_range_bf16(float *lowest, float *highest, int64_t *zeros, const void *codes, int64_t n);

/* Adds the deviations of n finite BF16 codes from `near`, as stat_add_f32 does, but lanes go to
 * other elements. lowest, highest and zeros are the caller's. */
void stat_add_bf16(stat_lanes *s, const void *codes, int64_t n, double near);

/* Adds a block: n finite numbers, a multiple of STAT_LANES up to STAT_BLOCK, times scale.
 * Deviations are from `near`, which is scaled already. Of float32 the sum of squares is not finite
 * when a number is not, since no square of float32 overflows in float64. */
void stat_add_f32(stat_lanes *s, const float *x, int64_t n, double near);
void stat_add_f64(stat_lanes *s, const double *x, int64_t n, double near, double scale);

/* The lanes as one sum, in a fixed order. */
double stat_total(const double lanes[STAT_LANES]);

/* The least and the largest of n >= 1 integers. */
void stat_range_i64(int64_t *lowest, int64_t *highest, const int64_t *x, int64_t n);
void stat_range_u64(uint64_t *lowest, uint64_t *highest, const uint64_t *x, int64_t n);

/* ---- Differences ----------------------------------------------------------------------------- */

#define DIFF_BLOCK 1024 /* elements: what is made of two blocks of them stays in the L1 cache */

/* Sums over pairs of numbers a, b. All zero: no pairs yet. */
typedef struct diff_lanes {
    double differences[STAT_LANES];                           /* of (a - b)^2 */
    double a[STAT_LANES], b[STAT_LANES], product[STAT_LANES]; /* of a^2, b^2, a * b */
} diff_lanes;

/* Adds n pairs of finite numbers, a multiple of STAT_LANES; returns the largest |a - b|. Of float32
 * a or b is not finite behind it when a number is not. */
double diff_add_f32(diff_lanes *s, const float *a, const float *b, int64_t n);
double diff_add_f64(diff_lanes *s, const double *a, const double *b, int64_t n);

/* Compares n words of 8 bytes, at any addresses; n is a multiple of 8. Copies those of a that are
 * the same in b, with zeros in the place of others, whose numbers go to `others`; returns how many.
 */
int64_t diff_words(void *same, uint16_t *others, const void *a, const void *b, int64_t n);

/* The sum of the squares of n numbers, a multiple of STAT_LANES; of BF16 codes, a multiple of 32 at
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
