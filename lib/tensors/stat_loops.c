/* Loops of vectors that the compiler knows, once each for AVX-512, AVX2 and any x86-64. */
#include "tensors/stat_loops.h"

#include <math.h>
#include <string.h>

#include "base/clones.h"

/* Vectors of 64 bytes, or two of them, which may begin anywhere. */
#define VECTOR(bytes) __attribute__((vector_size(bytes), aligned(4), may_alias))
typedef float f32_16 VECTOR(64);
typedef int32_t i32_16 VECTOR(64);
typedef float f32_8 VECTOR(32);
typedef double f64_8 VECTOR(64);
typedef int64_t i64_8 VECTOR(64);

#define AT(vector, p) (*(const vector *)(const void *)(p))

/* Lanes of a where the mask is set, of b elsewhere. */
#define SELECT(bits, type, mask, a, b)                                                             \
    ((type)(((mask) & (bits)(a)) | (~(mask) & (bits)(b))))

/* ---- Numbers that are not finite ------------------------------------------------------------- */

#define EXPONENT_32 0x7f800000
#define EXPONENT_64 0x7ff0000000000000

/* Ones in the exponent show as a set sign bit when its lowest bit is added. */
#define FINITE(name, T, word, exponent, lowest)                                                    \
    CPU_CLONES int name(const T *x, int64_t n)                                                     \
    {                                                                                              \
        word found = 0;                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                          \
            word bits;                                                                             \
            memcpy(&bits, &x[i], sizeof bits);                                                     \
            found |= (bits & (exponent)) + (lowest);                                               \
        }                                                                                          \
        return !(found >> (8 * sizeof found - 1));                                                 \
    }

FINITE(stat_finite_f32, float, uint32_t, EXPONENT_32, UINT32_C(0x00800000))
FINITE(stat_finite_f64, double, uint64_t, EXPONENT_64, UINT64_C(0x0010000000000000))

#define CLEAN(name, T, word, exponent)                                                             \
    CPU_CLONES void name(T *out, const T *x, int64_t n, T instead, int64_t *nan, int64_t *inf)     \
    {                                                                                              \
        word strange = 0, nans = 0;                                                                \
        for (int64_t i = 0; i < n; i++) {                                                          \
            word bits;                                                                             \
            memcpy(&bits, &x[i], sizeof bits);                                                     \
            bits &= ~((word)1 << (8 * sizeof bits - 1));                                           \
            strange += bits >= (exponent);                                                         \
            nans += bits > (exponent);                                                             \
            out[i] = bits >= (exponent) ? instead : x[i];                                          \
        }                                                                                          \
        *nan += (int64_t)nans;                                                                     \
        *inf += (int64_t)(strange - nans);                                                         \
    }

CLEAN(stat_clean_f32, float, uint32_t, EXPONENT_32)
CLEAN(stat_clean_f64, double, uint64_t, EXPONENT_64)

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Of lanes in memory. */
static void keep_range(stat_lanes *s, const double *low, const double *high, int n)
{
    for (int j = 0; j < n; j++) {
        s->lowest = low[j] < s->lowest ? low[j] : s->lowest;
        s->highest = high[j] > s->highest ? high[j] : s->highest;
    }
}

CPU_CLONES void stat_add_f32(stat_lanes *s, const float *x, int64_t n, double near)
{
    f64_8 sum0 = AT(f64_8, s->sum), sum1 = AT(f64_8, s->sum + 8);
    f64_8 squares0 = AT(f64_8, s->squares), squares1 = AT(f64_8, s->squares + 8);
    f32_16 low = AT(f32_16, x), high = low;
    i32_16 zeros = {0};
    for (int64_t i = 0; i < n; i += 16) {
        f32_16 v = AT(f32_16, x + i);
        f64_8 a = __builtin_convertvector(AT(f32_8, x + i), f64_8) - near;
        f64_8 b = __builtin_convertvector(AT(f32_8, x + i + 8), f64_8) - near;
        low = SELECT(i32_16, f32_16, v < low, v, low);
        high = SELECT(i32_16, f32_16, v > high, v, high);
        zeros -= v == 0;
        sum0 += a;
        sum1 += b;
        squares0 += a * a;
        squares1 += b * b;
    }
    double lows[16], highs[16];
    for (int j = 0; j < 16; j++) {
        lows[j] = low[j];
        highs[j] = high[j];
        s->zeros += zeros[j];
    }
    keep_range(s, lows, highs, 16);
    memcpy(s->sum, &sum0, sizeof sum0);
    memcpy(s->sum + 8, &sum1, sizeof sum1);
    memcpy(s->squares, &squares0, sizeof squares0);
    memcpy(s->squares + 8, &squares1, sizeof squares1);
}

CPU_CLONES void stat_add_f64(stat_lanes *s, const double *x, int64_t n, double near, double scale)
{
    f64_8 sum0 = AT(f64_8, s->sum), sum1 = AT(f64_8, s->sum + 8);
    f64_8 squares0 = AT(f64_8, s->squares), squares1 = AT(f64_8, s->squares + 8);
    f64_8 low = AT(f64_8, x), high = low;
    i64_8 zeros = {0};
    for (int64_t i = 0; i < n; i += 16) {
        f64_8 v = AT(f64_8, x + i), w = AT(f64_8, x + i + 8);
        low = SELECT(i64_8, f64_8, v < low, v, low);
        high = SELECT(i64_8, f64_8, v > high, v, high);
        low = SELECT(i64_8, f64_8, w < low, w, low);
        high = SELECT(i64_8, f64_8, w > high, w, high);
        zeros -= (v == 0) + (w == 0);
        v = v * scale - near;
        w = w * scale - near;
        sum0 += v;
        sum1 += w;
        squares0 += v * v;
        squares1 += w * w;
    }
    double lows[8], highs[8];
    for (int j = 0; j < 8; j++) {
        lows[j] = low[j];
        highs[j] = high[j];
        s->zeros += zeros[j];
    }
    keep_range(s, lows, highs, 8);
    memcpy(s->sum, &sum0, sizeof sum0);
    memcpy(s->sum + 8, &sum1, sizeof sum1);
    memcpy(s->squares, &squares0, sizeof squares0);
    memcpy(s->squares + 8, &squares1, sizeof squares1);
}

/* ---- Integers -------------------------------------------------------------------------------- */

#define RANGE(name, T)                                                                             \
    CPU_CLONES void name(T *lowest, T *highest, const T *x, int64_t n)                             \
    {                                                                                              \
        T low = x[0], high = x[0];                                                                 \
        for (int64_t i = 1; i < n; i++) {                                                          \
            low = x[i] < low ? x[i] : low;                                                         \
            high = x[i] > high ? x[i] : high;                                                      \
        }                                                                                          \
        *lowest = low;                                                                             \
        *highest = high;                                                                           \
    }

RANGE(stat_range_i64, int64_t)
RANGE(stat_range_u64, uint64_t)
