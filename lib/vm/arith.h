/* Arithmetic that C leaves open or undefined, the same for host numbers and for elements: integers
 * wrap, // and % floor as in Python, and no operation traps. */
#ifndef VM_ARITH_H
#define VM_ARITH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

static inline int64_t arith_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t arith_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline int64_t arith_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* By 0 gives 0; INT64_MIN // -1 wraps. */
static inline int64_t arith_floordiv(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return arith_sub(0, a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t arith_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* a to the power b, wrapping; 0 for b < 0. */
static inline int64_t arith_pow(int64_t a, int64_t b)
{
    int64_t x = b < 0 ? 0 : 1;
    for (; b > 0; b >>= 1) {
        if (b & 1)
            x = arith_mul(x, a);
        a = arith_mul(a, a);
    }
    return x;
}

/* Python's float division, rounded like its: exact remainder first. A remainder of 0 has the sign
 * of b. By 0: what a / b gives, and nan. */
static inline double arith_fmod(double a, double b)
{
    double r = fmod(a, b);
    if (r == 0)
        return copysign(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

static inline float arith_fmodf(float a, float b)
{
    float r = fmodf(a, b);
    if (r == 0)
        return copysignf(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

static inline double arith_ffloordiv(double a, double b)
{
    if (b == 0)
        return a / b;
    double r = fmod(a, b), q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0))
        q -= 1;
    if (q == 0)
        return copysign(0, a / b);
    double whole = floor(q);
    return q - whole > 0.5 ? whole + 1 : whole;
}

static inline float arith_ffloordivf(float a, float b)
{
    if (b == 0)
        return a / b;
    float r = fmodf(a, b), q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0))
        q -= 1;
    if (q == 0)
        return copysignf(0, a / b);
    float whole = floorf(q);
    return q - whole > 0.5f ? whole + 1 : whole;
}

#endif
