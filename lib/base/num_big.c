/* Large natural numbers: schoolbook arithmetic with 32-bit limbs, least significant first. */
#include "base/num_big.h"

#include <string.h>

void num_big_set(num_big *b, uint64_t x)
{
    b->n = 0;
    for (; x; x >>= 32)
        b->limb[b->n++] = (uint32_t)x;
}

void num_big_mul_add(num_big *b, uint32_t factor, uint32_t term)
{
    uint64_t carry = term;
    for (int i = 0; i < b->n; i++) {
        carry += (uint64_t)b->limb[i] * factor;
        b->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry)
        b->limb[b->n++] = (uint32_t)carry;
}

void num_big_mul_pow5(num_big *b, int exponent)
{
    const uint32_t pow5_13 = 1220703125; /* the largest power of 5 in 32 bits */
    for (; exponent >= 13; exponent -= 13)
        num_big_mul_add(b, pow5_13, 0);
    uint32_t rest = 1;
    for (; exponent > 0; exponent--)
        rest *= 5;
    num_big_mul_add(b, rest, 0);
}

void num_big_shift(num_big *b, int bits)
{
    if (b->n == 0)
        return;
    int limbs = bits / 32;
    memmove(b->limb + limbs, b->limb, (size_t)b->n * sizeof *b->limb);
    memset(b->limb, 0, (size_t)limbs * sizeof *b->limb);
    b->n += limbs;
    if (bits % 32)
        num_big_mul_add(b, (uint32_t)1 << bits % 32, 0);
}

uint32_t num_big_div(num_big *b, uint32_t divisor)
{
    uint64_t rest = 0;
    for (int i = b->n - 1; i >= 0; i--) {
        rest = rest << 32 | b->limb[i];
        b->limb[i] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    while (b->n > 0 && b->limb[b->n - 1] == 0)
        b->n--;
    return (uint32_t)rest;
}

int num_big_compare(const num_big *a, const num_big *b)
{
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    for (int i = a->n - 1; i >= 0; i--) {
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i] ? -1 : 1;
    }
    return 0;
}
