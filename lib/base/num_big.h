/* Large natural numbers of a fixed greatest size, for the few decimal conversions where 128 bits do
 * not decide. They live on the stack and cannot fail. */
#ifndef BASE_NUM_BIG_H
#define BASE_NUM_BIG_H

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

#endif
