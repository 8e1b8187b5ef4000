/* normal() of rules in float32: standard normal numbers by Box and Muller's method, from the words
 * of Philox4x32-10 and from arithmetic alone, so that processors, vectors of any width and GPUs
 * give the same bits. (In float64 it is philox_normal of base/philox.h.)
 *
 * A block of Philox has four words, so it serves four elements, 16 apart, which is as wide as a
 * vector may be. Element e of a draw is
 *
 *     block    e / 64 * 16 + e % 16: its counter (philox_at) has this number for the element
 *     quarter  e / 16 % 4; words 0 and 1 make quarters 0 and 1, words 2 and 3 quarters 2 and 3
 *
 * Words a, b make r cos t (the even quarter) and r sin t with r = sqrt(-2 log u) and
 * t = 2 pi b / 2^32, where u is a / 2 without its fraction, rounded to float32, over 2^31 plus
 * 2^-32, rounded again: above 0 and up to 1. So r is at most sqrt(64 log 2), 6.66. The results are
 * less than 2^-22 r away from that.
 *
 * Compilers of GPUs read this file too, behind vm/curve.h.
 */
#pragma once

#ifndef KV_DEVICE
#include "base/philox_rounds.h"
#include "vm/curve.h"
#endif

/* How far apart the four elements of a block are, and how many elements as many blocks have. */
#define NOISE_LANES 16
#define NOISE_GROUP 64

/* -2 log u for the u of a word: log 2 times the exponent plus the log of a number within
 * sqrt(1/2) … sqrt(2), which is 1 + f. The polynomial is the best of its degree for
 * (log(1 + f) - f + f * f / 2) / f ** 3, and the log less than 2^-27 off before its roundings. Its
 * terms are added in pairs, so that fewer operations wait for one another. */
ARITH float noise_square(unsigned word)
{
    curve_bitsf u;
    u.number = (float)(int)(word >> 1) * 0x1p-31f + 0x1p-32f;
    int exponent = (int)(u.bits - 0x3f3504f3u) >> 23; /* sqrt(1/2) and up: 0 */
    u.bits -= (unsigned)exponent << 23;
    float f = u.number - 1, z = f * f;
    float low = (0.3333333171f - 0.2500082103f * f) + z * (0.2000122687f - 0.1662335753f * f);
    float high = (0.14201758f - 0.1316018047f * f) + z * (0.1276157735f - 0.0763450291f * f);
    float s = low + z * z * high;
    float log_of_rest = f + (f * z * s - 0.5f * z);
    return -2 * ((float)exponent * 0x1.62e43p-1f + log_of_rest);
}

/* The two numbers of a pair of words: *even for the even quarter. The angle is at most an eighth of
 * a turn away from whole quarters of it. */
ARITH void noise_pair(unsigned a, unsigned b, float *even, float *odd)
{
    float r = sqrtf(noise_square(a));
    unsigned quarter = (b + 0x20000000u) >> 30;
    float x = (float)(int)(b - (quarter << 30)) * 0x1.921fb6p-30f; /* pi / 2 / 2^30 */
    float s = curve_near_sinf(x), c = curve_near_cosf(x);
    curve_bitsf cosine, sine;
    cosine.number = r * (quarter & 1 ? s : c);
    sine.number = r * (quarter & 1 ? c : s);
    cosine.bits ^= ((quarter + 1) & 2) << 30;
    sine.bits ^= (quarter & 2) << 30;
    *even = cosine.number;
    *odd = sine.number;
}

/* The number of one element; loops over many are in kernel_loops.h. */
ARITH float noise_normal(arith_bits seed, arith_bits draw, arith_bits element)
{
    arith_bits block = element / NOISE_GROUP * NOISE_LANES + element % NOISE_LANES;
    unsigned quarter = (unsigned)(element / NOISE_LANES % 4);
    philox x = philox_counter(PHILOX_RULES, draw, block);
    x = philox_rounds(x, (unsigned)seed, (unsigned)(seed >> 32));
    float even, odd;
    unsigned second = quarter & 2; /* not an index: a GPU would keep the words in memory for it */
    noise_pair(second ? x.word[2] : x.word[0], second ? x.word[3] : x.word[1], &even, &odd);
    return quarter & 1 ? odd : even;
}
