/* Loops of vectors that the compiler knows, once each for AVX-512, AVX2 and any x86-64. Those that
 * widen float32 are once for AVX2 by hand and once for any processor: GCC 12 widens by twos,
 * through memory, and compares and selects where the processor has a minimum. */
#include "tensors/number_loops.h"

#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "base/compiler.h"

/* Vectors of 32 bytes, which may begin anywhere: of wider ones GCC 12 compares each lane by itself
 * where AVX2 is the widest that the processor has. */
#define VECTOR(bytes) __attribute__((vector_size(bytes), aligned(4), may_alias))
typedef float f32_8 VECTOR(32);
typedef int32_t i32_8 VECTOR(32);
typedef float f32_4 VECTOR(16);
typedef double f64_4 VECTOR(32);
typedef int64_t i64_4 VECTOR(32);

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

/* Keeps the range of lanes that are in memory. */
static void keep_range(stat_lanes *s, const double *low, const double *high, int n)
{
    for (int j = 0; j < n; j++) {
        s->lowest = low[j] < s->lowest ? low[j] : s->lowest;
        s->highest = high[j] > s->highest ? high[j] : s->highest;
    }
}

/* The range of the lanes j, and which of them are zeros. */
#define RANGE_OF(least, most, j, v)                                                                \
    do {                                                                                           \
        low##j = least(v, low##j);                                                                 \
        high##j = most(v, high##j);                                                                \
        zeros##j -= (v) == 0;                                                                      \
    } while (0)

/* Takes both ranges, of n lanes each, and their zeros into s. */
#define KEEP_RANGES(n)                                                                             \
    double lows[2 * (n)], highs[2 * (n)];                                                          \
    for (int j = 0; j < (n); j++) {                                                                \
        lows[j] = low0[j], lows[j + (n)] = low1[j];                                                \
        highs[j] = high0[j], highs[j + (n)] = high1[j];                                            \
        s->zeros += zeros0[j] + zeros1[j];                                                         \
    }                                                                                              \
    keep_range(s, lows, highs, 2 * (n))

/* What a processor has one instruction for, which the compiler does not find: four numbers become
 * one vector, and of two, the first if it is the lesser, or the greater, else the second. */
#define WIDE_ANY(four)     __builtin_convertvector(four, f64_4)
#define LEAST_32_ANY(x, y) SELECT(i32_8, f32_8, (x) < (y), x, y)
#define MOST_32_ANY(x, y)  SELECT(i32_8, f32_8, (x) > (y), x, y)
#define LEAST_64_ANY(x, y) SELECT(i64_4, f64_4, (x) < (y), x, y)
#define MOST_64_ANY(x, y)  SELECT(i64_4, f64_4, (x) > (y), x, y)

/* Defines a function by what its body is with such instructions, ANY or AVX2. */
#ifdef __x86_64__
#define WIDE_AVX2(four)     ((f64_4)_mm256_cvtps_pd((__m128)(four)))
#define LEAST_32_AVX2(x, y) ((f32_8)_mm256_min_ps((__m256)(x), (__m256)(y)))
#define MOST_32_AVX2(x, y)  ((f32_8)_mm256_max_ps((__m256)(x), (__m256)(y)))
#define LEAST_64_AVX2(x, y) ((f64_4)_mm256_min_pd((__m256d)(x), (__m256d)(y)))
#define MOST_64_AVX2(x, y)  ((f64_4)_mm256_max_pd((__m256d)(x), (__m256d)(y)))
#define TWICE(type, name, parameters, arguments, body)                                             \
    static type name##_any parameters body(ANY)                                                    \
    __attribute__((target("avx2"))) static type name##_avx2 parameters body(AVX2)                  \
    type name parameters                                                                           \
    {                                                                                              \
        return (__builtin_cpu_supports("avx2") ? name##_avx2 : name##_any)arguments;               \
    }
#else
#define TWICE(type, name, parameters, arguments, body) type name parameters body(ANY)
#endif

#define ADD_FOUR(j, four)                                                                          \
    do {                                                                                           \
        f64_4 d = (four)-near;                                                                     \
        sum##j += d;                                                                               \
        squares##j += d * d;                                                                       \
    } while (0)

#define TAKE_SUMS(s)                                                                               \
    f64_4 sum0 = AT(f64_4, (s)->sum), sum1 = AT(f64_4, (s)->sum + 4);                              \
    f64_4 sum2 = AT(f64_4, (s)->sum + 8), sum3 = AT(f64_4, (s)->sum + 12);                         \
    f64_4 squares0 = AT(f64_4, (s)->squares), squares1 = AT(f64_4, (s)->squares + 4);              \
    f64_4 squares2 = AT(f64_4, (s)->squares + 8), squares3 = AT(f64_4, (s)->squares + 12)

#define KEEP(to, j, x) memcpy((to) + 4 * (j), &(x), sizeof(x))
#define KEEP_SUMS(s)                                                                               \
    do {                                                                                           \
        KEEP((s)->sum, 0, sum0);                                                                   \
        KEEP((s)->sum, 1, sum1);                                                                   \
        KEEP((s)->sum, 2, sum2);                                                                   \
        KEEP((s)->sum, 3, sum3);                                                                   \
        KEEP((s)->squares, 0, squares0);                                                           \
        KEEP((s)->squares, 1, squares1);                                                           \
        KEEP((s)->squares, 2, squares2);                                                           \
        KEEP((s)->squares, 3, squares3);                                                           \
    } while (0)

#define ADD_F32(use)                                                                               \
    {                                                                                              \
        TAKE_SUMS(s);                                                                              \
        f32_8 low0 = AT(f32_8, x), low1 = AT(f32_8, x + 8), high0 = low0, high1 = low1;            \
        i32_8 zeros0 = {0}, zeros1 = {0};                                                          \
        for (int64_t i = 0; i < n; i += 16) {                                                      \
            f32_8 v = AT(f32_8, x + i), w = AT(f32_8, x + i + 8);                                  \
            RANGE_OF(LEAST_32_##use, MOST_32_##use, 0, v);                                         \
            RANGE_OF(LEAST_32_##use, MOST_32_##use, 1, w);                                         \
            ADD_FOUR(0, WIDE_##use(AT(f32_4, x + i)));                                             \
            ADD_FOUR(1, WIDE_##use(AT(f32_4, x + i + 4)));                                         \
            ADD_FOUR(2, WIDE_##use(AT(f32_4, x + i + 8)));                                         \
            ADD_FOUR(3, WIDE_##use(AT(f32_4, x + i + 12)));                                        \
        }                                                                                          \
        KEEP_RANGES(8);                                                                            \
        KEEP_SUMS(s);                                                                              \
    }

TWICE(void, stat_add_f32, (stat_lanes *s, const float *x, int64_t n, double near), (s, x, n, near),
      ADD_F32)

/* Two codes in each 32 bits: the upper one is a float32 without the lower, which is one when it is
 * shifted up. So no lanes change their places. */
typedef int32_t i32_4 VECTOR(16);
typedef int32_t any_i32_4 __attribute__((vector_size(16), aligned(1), may_alias));
#define UPPER(two) ((f32_4)((two) & (int32_t)0xffff0000))
#define LOWER(two) ((f32_4)((two) << 16))

#define ADD_BF16(use)                                                                              \
    {                                                                                              \
        TAKE_SUMS(s);                                                                              \
        for (int64_t i = 0; i < n; i += 16) {                                                      \
            i32_4 a = AT(any_i32_4, (const char *)codes + 2 * i);                                  \
            i32_4 b = AT(any_i32_4, (const char *)codes + 2 * i + 16);                             \
            ADD_FOUR(0, WIDE_##use(LOWER(a)));                                                     \
            ADD_FOUR(1, WIDE_##use(UPPER(a)));                                                     \
            ADD_FOUR(2, WIDE_##use(LOWER(b)));                                                     \
            ADD_FOUR(3, WIDE_##use(UPPER(b)));                                                     \
        }                                                                                          \
        KEEP_SUMS(s);                                                                              \
    }

TWICE(void, stat_add_bf16, (stat_lanes *s, const void *codes, int64_t n, double near),
      (s, codes, n, near), ADD_BF16)

#define ADD_F64(use)                                                                               \
    {                                                                                              \
        TAKE_SUMS(s);                                                                              \
        f64_4 low0 = AT(f64_4, x), low1 = AT(f64_4, x + 4), high0 = low0, high1 = low1;            \
        i64_4 zeros0 = {0}, zeros1 = {0};                                                          \
        for (int64_t i = 0; i < n; i += 16) {                                                      \
            f64_4 v0 = AT(f64_4, x + i), v1 = AT(f64_4, x + i + 4);                                \
            f64_4 v2 = AT(f64_4, x + i + 8), v3 = AT(f64_4, x + i + 12);                           \
            RANGE_OF(LEAST_64_##use, MOST_64_##use, 0, v0);                                        \
            RANGE_OF(LEAST_64_##use, MOST_64_##use, 1, v1);                                        \
            RANGE_OF(LEAST_64_##use, MOST_64_##use, 0, v2);                                        \
            RANGE_OF(LEAST_64_##use, MOST_64_##use, 1, v3);                                        \
            ADD_FOUR(0, v0 *scale);                                                                \
            ADD_FOUR(1, v1 *scale);                                                                \
            ADD_FOUR(2, v2 *scale);                                                                \
            ADD_FOUR(3, v3 *scale);                                                                \
        }                                                                                          \
        KEEP_RANGES(4);                                                                            \
        KEEP_SUMS(s);                                                                              \
    }

TWICE(void, stat_add_f64, (stat_lanes *s, const double *x, int64_t n, double near, double scale),
      (s, x, n, near, scale), ADD_F64)

/* ---- Codes of BF16 --------------------------------------------------------------------------- */

static float bf16_of(uint16_t code)
{
    uint32_t bits = (uint32_t)code << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Codes as integers have the order of the numbers where these are positive; those of negative
 * numbers, which have the sign bit, have the reverse order. */
CPU_CLONES int stat_range_bf16(float *lowest, float *highest, int64_t *zeros, const void *codes,
                               int64_t n)
{
    uint16_t least = UINT16_MAX, most = 0, count = 0;
    int16_t top = INT16_MIN;
    for (int64_t i = 0; i < n; i++) {
        uint16_t code;
        memcpy(&code, (const char *)codes + 2 * i, sizeof code);
        int16_t as_signed = (int16_t)code;
        least = code < least ? code : least;
        most = code > most ? code : most;
        top = as_signed > top ? as_signed : top;
        count = (uint16_t)(count + ((uint16_t)(code << 1) == 0));
    }
    if (top >= 0x7f80 || most >= 0xff80)
        return 0;
    *lowest = bf16_of(most >= 0x8000 ? most : least);
    *highest = bf16_of(top >= 0 ? (uint16_t)top : least);
    *zeros = count;
    return 1;
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

double stat_total(const double lanes[STAT_LANES])
{
    double x[STAT_LANES];
    memcpy(x, lanes, sizeof x);
    for (int half = STAT_LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            x[j] += x[j + half];
    return x[0];
}

/* ---- Differences ----------------------------------------------------------------------------- */

#define SAME(four)   (four)
#define MAGNITUDE(x) ((f64_4)((i64_4)(x)&INT64_MAX))

/* Four lanes: those from `from` on. */
#define ADD_LANES(quad, wide, most_of, from)                                                       \
    do {                                                                                           \
        f64_4 differences = AT(f64_4, s->differences + (from)), aa = AT(f64_4, s->a + (from));     \
        f64_4 bb = AT(f64_4, s->b + (from)), product = AT(f64_4, s->product + (from));             \
        for (int64_t i = from; i < n; i += STAT_LANES) {                                           \
            f64_4 x = wide(AT(quad, a + i)), y = wide(AT(quad, b + i)), d = x - y;                 \
            most = most_of(MAGNITUDE(d), most);                                                    \
            differences += d * d;                                                                  \
            aa += x * x;                                                                           \
            bb += y * y;                                                                           \
            product += x * y;                                                                      \
        }                                                                                          \
        memcpy(s->differences + (from), &differences, sizeof differences);                         \
        memcpy(s->a + (from), &aa, sizeof aa);                                                     \
        memcpy(s->b + (from), &bb, sizeof bb);                                                     \
        memcpy(s->product + (from), &product, sizeof product);                                     \
    } while (0)

#define DIFF_ADD(quad, wide, most_of)                                                              \
    {                                                                                              \
        f64_4 most = {0};                                                                          \
        double found = 0;                                                                          \
        ADD_LANES(quad, wide, most_of, 0);                                                         \
        ADD_LANES(quad, wide, most_of, 4);                                                         \
        ADD_LANES(quad, wide, most_of, 8);                                                         \
        ADD_LANES(quad, wide, most_of, 12);                                                        \
        for (int j = 0; j < 4; j++)                                                                \
            found = most[j] > found ? most[j] : found;                                             \
        return found;                                                                              \
    }
#define DIFF_ADD_F32(use) DIFF_ADD(f32_4, WIDE_##use, MOST_64_##use)
#define DIFF_ADD_F64(use) DIFF_ADD(f64_4, SAME, MOST_64_##use)

TWICE(double, diff_add_f32, (diff_lanes *s, const float *a, const float *b, int64_t n),
      (s, a, b, n), DIFF_ADD_F32)
TWICE(double, diff_add_f64, (diff_lanes *s, const double *a, const double *b, int64_t n),
      (s, a, b, n), DIFF_ADD_F64)

/* ---- Words that are the same ----------------------------------------------------------------- */

typedef int64_t any_i64_4 __attribute__((vector_size(32), aligned(1), may_alias));

/* Four words: those that are the same stay, and `differ` gets bits at the place of the others. */
#define SAME_WORDS(place)                                                                          \
    do {                                                                                           \
        i64_4 x = AT(any_i64_4, (const char *)a + 8 * (place));                                    \
        i64_4 equal = x == AT(any_i64_4, (const char *)b + 8 * (place));                           \
        x &= equal;                                                                                \
        memcpy((char *)same + 8 * (place), &x, sizeof x);                                          \
        differ |= bits & ~equal;                                                                   \
    } while (0)

CPU_CLONES int64_t diff_words(void *same, uint16_t *others, const void *a, const void *b, int64_t n)
{
    int64_t found = 0;
    for (int64_t i = 0; i < n; i += 8) {
        i64_4 bits = {1, 2, 4, 8}, differ = {0};
        SAME_WORDS(i);
        bits <<= 4;
        SAME_WORDS(i + 4);
        int64_t left = differ[0] | differ[1] | differ[2] | differ[3];
        for (; left; left &= left - 1)
            others[found++] = (uint16_t)(i + __builtin_ctzll((uint64_t)left));
    }
    return found;
}

/* ---- Squares --------------------------------------------------------------------------------- */

/* Adds up squares(0), which are of the lanes 0 to 3, and so on, of `step` elements at a time; then
 * the lanes, in a fixed order. */
#define ADD_SQUARES(step, squares)                                                                 \
    {                                                                                              \
        f64_4 sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0};                                      \
        for (int64_t i = 0; i < n; i += (step)) {                                                  \
            sum0 += squares(0);                                                                    \
            sum1 += squares(1);                                                                    \
            sum2 += squares(2);                                                                    \
            sum3 += squares(3);                                                                    \
        }                                                                                          \
        f64_4 four = (sum0 + sum2) + (sum1 + sum3);                                                \
        return (four[0] + four[2]) + (four[1] + four[3]);                                          \
    }
#define SQUARE(v)         ((v) * (v))
#define F64_SQUARES(j)    SQUARE(AT(f64_4, x + i + 4 * (j)))
#define F32_ANY(j)        SQUARE(WIDE_ANY(AT(f32_4, x + i + 4 * (j))))
#define F32_AVX2(j)       SQUARE(WIDE_AVX2(AT(f32_4, x + i + 4 * (j))))
#define TWO_CODES(j)      AT(any_i32_4, (const char *)codes + 2 * i + 16 * (j))
#define TWO_SQUARES(two)  (SQUARE(UPPER(two)) + SQUARE(LOWER(two)))
#define BF16_ANY(j)       WIDE_ANY(TWO_SQUARES(TWO_CODES(j)))
#define BF16_AVX2(j)      WIDE_AVX2(TWO_SQUARES(TWO_CODES(j)))
#define SQUARES_F32(use)  ADD_SQUARES(16, F32_##use)
#define SQUARES_F64(use)  ADD_SQUARES(16, F64_SQUARES)
#define SQUARES_BF16(use) ADD_SQUARES(32, BF16_##use)

TWICE(double, diff_squares_f32, (const float *x, int64_t n), (x, n), SQUARES_F32)
TWICE(double, diff_squares_f64, (const double *x, int64_t n), (x, n), SQUARES_F64)
TWICE(double, diff_squares_bf16, (const void *codes, int64_t n), (codes, n), SQUARES_BF16)

/* ---- Tolerances ------------------------------------------------------------------------------ */

#define BEYOND(name, T)                                                                            \
    CPU_CLONES int64_t name(const T *a, const T *b, int64_t n, double rtol, double atol)           \
    {                                                                                              \
        int64_t beyond = 0;                                                                        \
        for (int64_t i = 0; i < n; i++)                                                            \
            beyond += fabs((double)a[i] - (double)b[i]) > atol + rtol * fabs((double)b[i]);        \
        return beyond;                                                                             \
    }

BEYOND(diff_beyond_f32, float)
BEYOND(diff_beyond_f64, double)

/* ---- Bits ------------------------------------------------------------------------------------ */

/* Counted in the type of the elements as far as that can count: to widen each result to 64 bits
 * takes longer than to compare. */
enum { COUNTED = 128 };

#define UNEQUAL(name, T)                                                                           \
    CPU_CLONES static int64_t name(const char *a, const char *b, int64_t n)                        \
    {                                                                                              \
        int64_t unequal = 0;                                                                       \
        for (int64_t from = 0; from < n; from += COUNTED) {                                        \
            int64_t to = n - from < COUNTED ? n : from + COUNTED;                                  \
            T found = 0;                                                                           \
            for (int64_t i = from; i < to; i++) {                                                  \
                T x, y;                                                                            \
                memcpy(&x, a + i * (int64_t)sizeof x, sizeof x);                                   \
                memcpy(&y, b + i * (int64_t)sizeof y, sizeof y);                                   \
                found = (T)(found + (x != y));                                                     \
            }                                                                                      \
            unequal += (int64_t)found;                                                             \
        }                                                                                          \
        return unequal;                                                                            \
    }

UNEQUAL(unequal_8, uint8_t)
UNEQUAL(unequal_16, uint16_t)
UNEQUAL(unequal_32, uint32_t)
UNEQUAL(unequal_64, uint64_t)

int64_t diff_unequal(const void *a, const void *b, int64_t n, int bytes)
{
    return bytes == 1   ? unequal_8(a, b, n)
           : bytes == 2 ? unequal_16(a, b, n)
           : bytes == 4 ? unequal_32(a, b, n)
                        : unequal_64(a, b, n);
}

/* The integer of a code, in a type as wide or wider. */
#define ORDERED(code, wide)                                                                        \
    ((code)&sign ? -(wide)((code) & (sign - 1)) : (wide)((code) & (sign - 1)))

#define ORDER(name, T, wide, distance)                                                             \
    CPU_CLONES static void order_##name(int64_t *out, const char *codes, int64_t n, int bits)      \
    {                                                                                              \
        const T sign = (T)((T)1 << (bits - 1));                                                    \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T code;                                                                                \
            memcpy(&code, codes + i * (int64_t)sizeof code, sizeof code);                          \
            out[i] = ORDERED(code, wide);                                                          \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    CPU_CLONES static uint64_t farthest_##name(const char *a, const char *b, int64_t n, int bits)  \
    {                                                                                              \
        const T sign = (T)((T)1 << (bits - 1));                                                    \
        distance most = 0;                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T p, q;                                                                                \
            memcpy(&p, a + i * (int64_t)sizeof p, sizeof p);                                       \
            memcpy(&q, b + i * (int64_t)sizeof q, sizeof q);                                       \
            wide x = (wide)ORDERED(p, wide), y = (wide)ORDERED(q, wide);                           \
            distance down = (distance)((distance)x - (distance)y), up = (distance)-down;           \
            distance far = x > y ? down : up;                                                      \
            most = far > most ? far : most;                                                        \
        }                                                                                          \
        return most;                                                                               \
    }

ORDER(8, uint8_t, int16_t, uint16_t)
ORDER(16, uint16_t, int16_t, uint16_t)
ORDER(32, uint32_t, int32_t, uint32_t)
ORDER(64, uint64_t, int64_t, uint64_t)

void diff_order(int64_t *out, const void *codes, int64_t n, int bits, int bytes)
{
    if (bytes == 1)
        order_8(out, codes, n, bits);
    else if (bytes == 2)
        order_16(out, codes, n, bits);
    else if (bytes == 4)
        order_32(out, codes, n, bits);
    else
        order_64(out, codes, n, bits);
}

uint64_t diff_farthest(const void *a, const void *b, int64_t n, int bits, int bytes)
{
    return bytes == 1   ? farthest_8(a, b, n, bits)
           : bytes == 2 ? farthest_16(a, b, n, bits)
           : bytes == 4 ? farthest_32(a, b, n, bits)
                        : farthest_64(a, b, n, bits);
}
