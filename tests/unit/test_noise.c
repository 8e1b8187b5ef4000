/* The float32 numbers of normal() in rules: all loops give those of the definition, they are as
 * close to Box and Muller's formula as promised, and moments, tails and correlations are those of
 * independent normal numbers, within bounds that follow from how many there are. */
#include "vm/noise.h"

#include <math.h>

#include "base/philox.h"
#include "base/xxh64.h"
#include "test.h"
#include "vm/kernel.h"

TEST(noise_loops_are_the_definition)
{
    static const uint64_t from[] = {0, 1, 63, 64, 100, 4096, (UINT64_C(1) << 34) - 30};
    static const int64_t lengths[] = {0, 1, 15, 16, 63, 64, 65, 200, 513};
    float got[513 + 1], want;
    const kernel_table *k;
    for (int i = 0; (k = kernel_tables(i)); i++)
        for (int f = 0; f < 7; f++)
            for (int l = 0; l < 9; l++) {
                uint64_t seed = UINT64_C(0x123456789abcdef) * (uint64_t)(f + 1);
                uint64_t draw = (UINT64_C(0x700000000) + (uint64_t)l) * 4;
                int wrong = 0;
                got[lengths[l]] = 7; /* stays */
                k->normals(got, seed, draw, from[f], lengths[l]);
                for (int64_t n = 0; n < lengths[l]; n++) {
                    want = noise_normal(seed, draw, from[f] + (uint64_t)n);
                    wrong += memcmp(&got[n], &want, sizeof want) != 0;
                }
                CHECK(wrong == 0 && got[lengths[l]] == 7);
            }
}

/* Runs of years ago are repeated with the same bits. */
TEST(noise_stays)
{
    float z[4096];
    kernel_best()->normals(z, 5, 44, 0, 4096);
    CHECK(xxh64(z, sizeof z) == UINT64_C(0xed1e176deee99537));
}

/* What the head of noise.h says of an element, in long double; *r: its radius. */
static long double formula(uint64_t seed, uint64_t draw, uint64_t element, long double *r)
{
    const long double two_pi = 6.283185307179586476925L;
    philox p = philox_at(seed, PHILOX_RULES, draw, element / 64 * 16 + element % 16);
    unsigned quarter = (unsigned)(element / 16 % 4), first = quarter / 2 * 2;
    float u = (float)(p.word[first] >> 1) * 0x1p-31f + 0x1p-32f;
    long double t = two_pi * p.word[first + 1] / 0x1p32L;
    *r = sqrtl(-2 * logl((long double)u));
    return *r * (quarter % 2 ? sinl(t) : cosl(t));
}

TEST(noise_is_the_formula)
{
    long double most = 0, r;
    for (uint64_t i = 0; i < 300000; i++) {
        long double want = formula(3, 8, i, &r);
        long double off = fabsl(noise_normal(3, 8, i) - want);
        most = off > most * r ? off / r : most;
    }
    CHECK(most < 0x1p-22L);
}

/* The ends of the words give numbers: the largest radius, and 0. */
TEST(noise_ends)
{
    float even, odd;
    CHECK(fabs((double)noise_square(0) - 64 * log(2)) < 1e-5);
    CHECK(noise_square(1) == noise_square(0) && noise_square(2) < noise_square(1));
    CHECK(noise_square(0xffffffff) == 0);
    for (unsigned i = 0; i < 8; i++) { /* eighths of a turn */
        noise_pair(0, i << 29, &even, &odd);
        CHECK(fabs(even - 6.66043 * cos(i * 0.785398163397448)) < 2e-5);
        CHECK(fabs(odd - 6.66043 * sin(i * 0.785398163397448)) < 2e-5);
    }
}

enum { SAMPLES = 1 << 23, DRAWN = 1 << 16, LAGS = 5, TAILS = 5 };

/* Sums over all samples. */
typedef struct sums {
    double power[5]; /* of z, z ** 2 … */
    double tail[TAILS], lag[LAGS], square_lag[LAGS], next_draw;
} sums;

/* Elements a lag apart: neighbours; of one block: cosine and sine, and of two pairs; of two
 * groups. */
static const int lags[LAGS] = {1, 16, 32, 48, 64};
static const double tails[TAILS] = {1, 2, 3, 4, 5};

static void add_samples(sums *s, const float *z, const float *next, int n)
{
    for (int i = 0; i < n; i++) {
        double x = z[i], power = 1;
        for (int k = 1; k < 5; k++)
            s->power[k] += power *= x;
        for (int k = 0; k < TAILS; k++)
            s->tail[k] += fabs(x) > tails[k];
        s->next_draw += x * next[i];
    }
    for (int k = 0; k < LAGS; k++)
        for (int i = 0; i < n; i++) { /* z has as many more behind it */
            double x = z[i], y = z[i + lags[k]];
            s->lag[k] += x * y;
            s->square_lag[k] += (x * x - 1) * (y * y - 1);
        }
}

/* Five standard errors each, and a mean of so many products of independent numbers has the variance
 * of one product: of z 1, of z ** 2 2, of z ** 3 15, of z ** 4 96. */
TEST(noise_is_normal)
{
    static float z[DRAWN + 64], next[DRAWN];
    sums s = {.next_draw = 0};
    double n = SAMPLES, bound = 5 / sqrt(n);
    for (int at = 0; at < SAMPLES; at += DRAWN) {
        kernel_best()->normals(z, 11, 4, (uint64_t)at, DRAWN + 64);
        kernel_best()->normals(next, 11, 8, (uint64_t)at, DRAWN);
        add_samples(&s, z, next, DRAWN);
    }
    CHECK(fabs(s.power[1] / n) < bound);
    CHECK(fabs(s.power[2] / n - 1) < bound * sqrt(2));
    CHECK(fabs(s.power[3] / n) < bound * sqrt(15));
    CHECK(fabs(s.power[4] / n - 3) < bound * sqrt(96));
    for (int k = 0; k < TAILS; k++) {
        double p = erfc(tails[k] / sqrt(2));
        CHECK(fabs(s.tail[k] - n * p) < 5 * sqrt(n * p * (1 - p)) + 1);
    }
    for (int k = 0; k < LAGS; k++) {
        CHECK(fabs(s.lag[k] / n) < bound);
        CHECK(fabs(s.square_lag[k] / n) < bound * 2);
    }
    CHECK(fabs(s.next_draw / n) < bound);
}

/* 256 bins of equal probability find a bend of the density of a thousandth. Chi-square with 255
 * degrees of freedom has mean 255 and variance 510. */
TEST(noise_density)
{
    enum { BINS = 256 };
    static float z[DRAWN];
    double count[BINS] = {0}, chi = 0, expected = (double)SAMPLES / BINS;
    for (int at = 0; at < SAMPLES; at += DRAWN) {
        kernel_best()->normals(z, 12, 4, (uint64_t)at, DRAWN);
        for (int i = 0; i < DRAWN; i++) {
            int bin = (int)(erfc(-z[i] / sqrt(2)) * BINS / 2);
            count[bin < BINS ? bin : BINS - 1]++;
        }
    }
    for (int i = 0; i < BINS; i++)
        chi += (count[i] - expected) * (count[i] - expected) / expected;
    CHECK(fabs(chi - 255) < 5 * sqrt(510));
}
