/* Arithmetic that C leaves open or undefined, the same for host numbers, for elements and on GPUs:
 * integers wrap, // and % floor as in Python, and no operation traps.
 *
 * Compilers of GPUs read this file too, as a part of each rule (cuda/rule_element.cuh), so it
 * includes nothing there and has its own names for the types. A function of
 * double has a plain name, one of float ends in f, one of 64-bit integers in i. */
#pragma once

#ifdef KV_DEVICE
#define ARITH KV_DEVICE
#else
#include <math.h>
#define ARITH static inline
#endif

typedef long long arith_int; /* 64 bits, as int64_t */
typedef unsigned long long arith_bits;

ARITH arith_int arith_addi(arith_int a, arith_int b)
{
    return (arith_int)((arith_bits)a + (arith_bits)b);
}

ARITH arith_int arith_subi(arith_int a, arith_int b)
{
    return (arith_int)((arith_bits)a - (arith_bits)b);
}

ARITH arith_int arith_muli(arith_int a, arith_int b)
{
    return (arith_int)((arith_bits)a * (arith_bits)b);
}

/* By 0 gives 0; INT64_MIN // -1 wraps. */
ARITH arith_int arith_floordivi(arith_int a, arith_int b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return arith_subi(0, a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

ARITH arith_int arith_modi(arith_int a, arith_int b)
{
    if (b == 0 || b == -1)
        return 0;
    arith_int r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

ARITH arith_int arith_negi(arith_int a)
{
    return arith_subi(0, a);
}

ARITH arith_int arith_absi(arith_int a)
{
    return a < 0 ? arith_subi(0, a) : a;
}

/* a to the power b, wrapping; for b < 0 the whole part: 0, except for a = 1 and -1. */
ARITH arith_int arith_powi(arith_int a, arith_int b)
{
    arith_int x = 1;
    if (b < 0)
        return a != 1 && a != -1 ? 0 : b & 1 ? a : 1;
    for (; b > 0; b >>= 1) {
        if (b & 1)
            x = arith_muli(x, a);
        a = arith_muli(a, a);
    }
    return x;
}

/* Python's float division of T, rounded like its: exact remainder first. A remainder of 0 has the
 * sign of b. By 0 they give a / b, and nan. f: the suffix of the functions of T. */
#define ARITH_DIVISION(T, f)                                                                       \
    ARITH T arith_mod##f(T a, T b)                                                                 \
    {                                                                                              \
        T r = fmod##f(a, b);                                                                       \
        if (r == 0)                                                                                \
            return copysign##f((T)0, b);                                                           \
        return (r < 0) != (b < 0) ? r + b : r;                                                     \
    }                                                                                              \
                                                                                                   \
    ARITH T arith_floordiv##f(T a, T b)                                                            \
    {                                                                                              \
        if (b == 0)                                                                                \
            return a / b;                                                                          \
        T r = fmod##f(a, b), q = (a - r) / b;                                                      \
        if (r != 0 && (r < 0) != (b < 0))                                                          \
            q -= 1;                                                                                \
        if (q == 0)                                                                                \
            return copysign##f((T)0, a / b);                                                       \
        T whole = floor##f(q);                                                                     \
        return q - whole > (T)0.5 ? whole + 1 : whole;                                             \
    }

ARITH_DIVISION(double, )
ARITH_DIVISION(float, f)

/* pow, exp and log are those of binary64, rounded. */
#define ARITH_FLOAT(T, f)                                                                          \
    ARITH T arith_add##f(T a, T b) { return a + b; }                                               \
    ARITH T arith_sub##f(T a, T b) { return a - b; }                                               \
    ARITH T arith_mul##f(T a, T b) { return a * b; }                                               \
    ARITH T arith_neg##f(T a) { return -a; }                                                       \
    ARITH T arith_abs##f(T a) { return fabs##f(a); }                                               \
    ARITH T arith_pow##f(T a, T b) { return (T)pow((double)a, (double)b); }                        \
    ARITH T arith_exp##f(T a) { return (T)exp((double)a); }                                        \
    ARITH T arith_log##f(T a) { return (T)log((double)a); }

ARITH_FLOAT(double, )
ARITH_FLOAT(float, f)
