/* Powers of ten with 128 bits, for num_format.c and num_parse.c. scripts/powers writes the table
 * when the library is built. */
#pragma once

#include <locale.h>
#include <stdint.h>

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

/* The C library's own locale: numbers are the same in every other one. It takes no memory. */
static inline locale_t num_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}
