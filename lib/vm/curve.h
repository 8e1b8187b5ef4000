/* Functions of one number from arithmetic alone: each operation of them rounds as the standard
 * says, so that processors, vectors of any width and GPUs give the same bits, and none of them
 * branches, so that compilers make vectors of a loop that calls one.
 *
 * They are less than 3 units in the last place of their type away from the true value; sin and cos
 * less than 1, of float32 1.5. A nan stays one. Those of float32 end in f, as in <math.h>.
 *
 * Compilers of GPUs read this file too, behind vm/arith.h.
 */
#pragma once

#ifndef KV_DEVICE
#include "vm/arith.h"
#endif

typedef union curve_bits {
    double number;
    arith_bits bits;
} curve_bits;

/* A number that is added to a smaller one, and subtracted again, rounds that to an integer. */
#define CURVE_ROUNDER 0x1.8p52

/* (e ** 2x - 1) / (e ** 2x + 1), e ** r - 1 being r and the next terms of its series for r within
 * half of log 2. */
ARITH double curve_tanh(double x)
{
    double y = 2 * fabs(x);
    y = y > 40 ? 40 : y;
    curve_bits k, power;
    k.number = y * 0x1.71547652b82fep+0 + CURVE_ROUNDER;
    double n = k.number - CURVE_ROUNDER;
    double r = y - n * 0x1.62e42fefa2p-1 - n * 0x1.9ef35793c7673p-41;
    double s = 1.0 / 6227020800;
    s = s * r + 1.0 / 479001600;
    s = s * r + 1.0 / 39916800;
    s = s * r + 1.0 / 3628800;
    s = s * r + 1.0 / 362880;
    s = s * r + 1.0 / 40320;
    s = s * r + 1.0 / 5040;
    s = s * r + 1.0 / 720;
    s = s * r + 1.0 / 120;
    s = s * r + 1.0 / 24;
    s = s * r + 1.0 / 6;
    s = s * r + 0.5;
    double e = r + r * r * s;
    power.bits = (k.bits + 1023) << 52;
    e = e * power.number + (power.number - 1);
    return copysign(e / (e + 2), x);
}

/* The numbers up to which the next two are as exact as that. */
#define CURVE_TURNS_MAX 0x1p17

/* The sine of x + quarters * pi / 2: pi / 2 in three parts, of which the first two have products
 * without a rounding, then the series of sine or cosine with what the subtraction left over. */
ARITH double curve_turn(double x, arith_bits quarters)
{
    curve_bits k, out;
    k.number = x * 0x1.45f306dc9c883p-1 + CURVE_ROUNDER;
    double n = k.number - CURVE_ROUNDER;
    double a = x - n * 0x1.921fb544p+0, b = -(n * 0x1.0b4611a6p-34);
    double y = a + b, left = y - a;
    left = (a - (y - left)) + (b - left) - n * 0x1.3198a2e037073p-69;
    double r = y + left;
    left = (y - r) + left;
    double z = r * r;
    double s = 1.58969099521155010221e-10;
    s = s * z - 2.50507602534068634195e-08;
    s = s * z + 2.75573137070700676789e-06;
    s = s * z - 1.98412698298579493134e-04;
    s = s * z + 8.33333333332248946124e-03;
    s = r - ((z * (0.5 * left - z * r * s) - left) + z * r * 1.66666666666666324348e-01);
    double c = -1.13596475577881948265e-11;
    c = c * z + 2.08757232129817482790e-09;
    c = c * z - 2.75573143513906633035e-07;
    c = c * z + 2.48015872894767294178e-05;
    c = c * z - 1.38888888888741095749e-03;
    c = c * z + 4.16666666666666019037e-02;
    double half = 0.5 * z, one = 1 - half;
    c = one + (((1 - one) - half) + (z * z * c - r * left));
    arith_bits quarter = k.bits + quarters;
    out.number = quarter & 1 ? c : s;
    out.bits ^= (quarter & 2) << 62;
    return out.number;
}

ARITH double curve_sin(double x)
{
    return x == 0 ? x : curve_turn(x, 0); /* -0 stays one */
}

ARITH double curve_cos(double x)
{
    return curve_turn(x, 1);
}

/* The same for every number: by the library's functions for larger ones, infinities and nans. */
ARITH double curve_any_sin(double x)
{
    return fabs(x) <= CURVE_TURNS_MAX ? curve_sin(x) : sin(x);
}

ARITH double curve_any_cos(double x)
{
    return fabs(x) <= CURVE_TURNS_MAX ? curve_cos(x) : cos(x);
}

/* (asin(y) / y - 1) / z for z = y * y up to 1/4. */
ARITH double curve_asin_terms(double z)
{
    double s = 0.028169218060881414;
    s = s * z - 0.010749050339697808;
    s = s * z + 0.01603551434914882;
    s = s * z + 0.0078029494773533175;
    s = s * z + 0.011875494382636922;
    s = s * z + 0.013929652902326633;
    s = s * z + 0.017355259955786323;
    s = s * z + 0.02237204763174451;
    s = s * z + 0.03038194736709848;
    s = s * z + 0.044642857103423646;
    s = s * z + 0.07500000000020764;
    return s * z + 0.1666666666666665;
}

/* Above 1/2, 2 * asin(sqrt((1 - x) / 2)) is acos(x). */
ARITH double curve_acos(double x)
{
    double y = fabs(x), far = (1 - y) * 0.5;
    double z = y > 0.5 ? far : x * x;
    double terms = z * curve_asin_terms(z);
    double root = sqrt(far);
    double small = root + root * terms;
    double far_end = 0x1.921fb54442d18p+1 - 2 * (small - 0x1.1a62633145c07p-54);
    double near_one = x < 0 ? far_end : 2 * small;
    double near_zero = 0x1.921fb54442d18p+0 - (x - (0x1.1a62633145c07p-54 - x * terms));
    return y > 0.5 ? near_one : near_zero;
}

ARITH double curve_asin(double x)
{
    double y = fabs(x), far = (1 - y) * 0.5;
    double z = y > 0.5 ? far : x * x;
    double terms = z * curve_asin_terms(z);
    double root = sqrt(far);
    double near_one =
        0x1.921fb54442d18p+0 - (2 * (root + root * terms) - 0x1.1a62633145c07p-54);
    return y > 0.5 ? copysign(near_one, x) : x + x * terms;
}

/* ---- float32 --------------------------------------------------------------------------------- */

typedef union curve_bitsf {
    float number;
    unsigned bits;
} curve_bitsf;

ARITH float curve_tanhf(float x)
{
    float y = 2 * fabsf(x);
    y = y > 20 ? 20 : y;
    curve_bitsf k, power;
    k.number = y * 0x1.715476p+0f + 0x1.8p23f;
    float n = k.number - 0x1.8p23f;
    float r = y - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;
    float s = 1.0f / 5040;
    s = s * r + 1.0f / 720;
    s = s * r + 1.0f / 120;
    s = s * r + 1.0f / 24;
    s = s * r + 1.0f / 6;
    s = s * r + 0.5f;
    float e = r + r * r * s;
    power.bits = (k.bits + 127) << 23;
    e = e * power.number + (power.number - 1);
    return copysignf(e / (e + 2), x);
}

/* The series of sine and cosine, for numbers within pi / 4 of 0. */
ARITH float curve_near_sinf(float x)
{
    float z = x * x;
    float s = 2.7183114939898219064e-6f;
    s = s * z - 1.98393348360966317347e-4f;
    s = s * z + 8.3333293858894631756e-3f;
    s = s * z - 1.66666666416265235595e-1f;
    return x + x * z * s;
}

ARITH float curve_near_cosf(float x)
{
    float z = x * x;
    float c = 2.43904487962774090654e-5f;
    c = c * z - 1.38867637746099294692e-3f;
    c = c * z + 4.16666233237390631894e-2f;
    return 1 + (z * z * c - 0.5f * z);
}

/* The turns are taken off in float64. */
ARITH float curve_turnf(float x, unsigned quarters)
{
    curve_bits k;
    curve_bitsf out;
    k.number = (double)x * 0x1.45f306dc9c883p-1 + CURVE_ROUNDER;
    double n = k.number - CURVE_ROUNDER;
    float r = (float)((double)x - n * 0x1.921fb544p+0 - n * 0x1.0b4611a6263p-34);
    float s = curve_near_sinf(r), c = curve_near_cosf(r);
    unsigned quarter = (unsigned)k.bits + quarters;
    out.number = quarter & 1 ? c : s;
    out.bits ^= (quarter & 2) << 30;
    return out.number;
}

ARITH float curve_sinf(float x)
{
    return x == 0 ? x : curve_turnf(x, 0);
}

ARITH float curve_cosf(float x)
{
    return curve_turnf(x, 1);
}

ARITH float curve_any_sinf(float x)
{
    return fabsf(x) <= (float)CURVE_TURNS_MAX ? curve_sinf(x) : (float)sin((double)x);
}

ARITH float curve_any_cosf(float x)
{
    return fabsf(x) <= (float)CURVE_TURNS_MAX ? curve_cosf(x) : (float)cos((double)x);
}

ARITH float curve_asin_termsf(float z)
{
    float s = 4.2163199048e-2f;
    s = s * z + 2.4181311049e-2f;
    s = s * z + 4.5470025998e-2f;
    s = s * z + 7.4953002686e-2f;
    return s * z + 1.6666752422e-1f;
}

ARITH float curve_acosf(float x)
{
    float y = fabsf(x), far = (1 - y) * 0.5f;
    float z = y > 0.5f ? far : x * x;
    float terms = z * curve_asin_termsf(z);
    float root = sqrtf(far);
    float small = 2 * (root + root * terms);
    float far_end = 0x1.921fb6p+1f - (small + 0x1.777a5cp-24f);
    float near_one = x < 0 ? far_end : small;
    float near_zero = 0x1.921fb6p+0f - (x + (x * terms + 0x1.777a5cp-25f));
    return y > 0.5f ? near_one : near_zero;
}

ARITH float curve_asinf(float x)
{
    float y = fabsf(x), far = (1 - y) * 0.5f;
    float z = y > 0.5f ? far : x * x;
    float terms = z * curve_asin_termsf(z);
    float root = sqrtf(far);
    float near_one = 0x1.921fb6p+0f - (2 * (root + root * terms) + 0x1.777a5cp-25f);
    return y > 0.5f ? copysignf(near_one, x) : x + x * terms;
}
