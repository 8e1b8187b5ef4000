/* Large natural numbers of a fixed greatest size, for the few decimal conversions where 128 bits do
 * not decide. They live on the stack and cannot fail. */
#pragma once

#include <stdint.h>

/* 8192 bits. The largest operands are those of a comparison in num_parse.c: 801 decimal digits, or
 * 5^1144 times 54 bits (both below 2720 bits), shifted by at most 2300. */
#define NUM_BIG_LIMBS 256

/* The sum of limb[i] * 2^(32 i) for i < n; limb[n - 1] is not 0. */
typedef struct num_big {
    int n;
    uint32_t limb[NUM_BIG_LIMBS];
} num_big;

void num_big_set(num_big *b, uint64_t x);
void num_big_mul_add(num_big *b, uint32_t factor, uint32_t term); /* b = b * factor + term */
void num_big_mul_pow5(num_big *b, int exponent);                  /* b *= 5^exponent */
void num_big_shift(num_big *b, int bits);                         /* b *= 2^bits, bits >= 0 */
uint32_t num_big_div(num_big *b, uint32_t divisor);               /* b /= divisor; the remainder */
int num_big_compare(const num_big *a, const num_big *b);          /* -1, 0 or 1 */

/* Powers of ten with 128 bits, for num_format.c and num_parse.c. scripts/powers writes the table
 * when the library is built. */

/* Shortest digits need 10^-292 to 10^324. Reading needs 10^-343, which makes a number of 19 digits
 * smaller than half of the smallest double, to 10^308. */
#define NUM_POWER_MIN (-343)
#define NUM_POWER_MAX 324
#define NUM_POWERS    (NUM_POWER_MAX - NUM_POWER_MIN + 1)

/* hi * 2^64 + lo, from 2^127 to 2^128: of 10^k the smallest such g with
 * g * 2^(num_log2_pow10(k) - 127) >= 10^k. */
typedef struct num_power {
    uint64_t hi, lo;
} num_power;

extern const num_power num_powers[NUM_POWERS];

/* floor(log2(10^k)), right for |k| <= 1233: 1741647 / 2^19 is log2(10) to 22 bits. */
static inline int num_log2_pow10(int k)
{
    return (k * 1741647) >> 19;
}

/* The precision (bits of the significand, the hidden one included) of each num_width, the exponent
 * of the last place of its smallest numbers, and the exponent above its largest. */
typedef struct num_format {
    int precision, min_exp, max_exp;
} num_format;

extern const num_format num_formats[4];
