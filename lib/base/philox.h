/* Random numbers that need no state: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers:
 * as easy as 1, 2, 3"). Key and counter give four words of 32 bits; another counter gives four
 * others.
 *
 * Numbers are named, not drawn: the seed is the key, and the counter says which stream, which draw
 * of it and which element are meant. So they do not depend on threads, parts or the order of work.
 */
#pragma once

#include <stdint.h>

#include "base/philox_rounds.h"

/* The words of one element. draw counts to 2^48. Counter: words 0 and 1 are element, low half
 * first; word 2 is the low half of draw; word 3 its next 16 bits and stream above them. */
philox philox_at(uint64_t seed, philox_stream stream, uint64_t draw, uint64_t element);

/* From 0 up to but without 1: the top 24 bits of word 0, or the top 53 bits of words 0 and 1, which
 * begin with word 0. */
double philox_uniform24(philox p);
double philox_uniform53(philox p);

/* Of mean 0 and deviation 1: Box and Muller's sqrt(-2 log u) cos(2 pi v), in binary64, of 53 bits
 * each; u, above 0 and up to 1, is of words 0 and 1, and v of words 2 and 3. */
double philox_normal(philox p);

/* A whole number from 0 to n - 1, all alike to within n / 2^64. n = 0 stands for 2^64. */
uint64_t philox_below(philox p, uint64_t n);
