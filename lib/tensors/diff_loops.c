/* Loops of vectors that the compiler knows, once each for AVX-512, AVX2 and any x86-64. */
#include "tensors/diff_loops.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"

#define VECTOR(bytes) __attribute__((vector_size(bytes), aligned(4), may_alias))
typedef float f32_8 VECTOR(32);
typedef double f64_8 VECTOR(64);
typedef int64_t i64_8 VECTOR(64);

#define AT(vector, p) (*(const vector *)(const void *)(p))

#define LOAD_f32(p) __builtin_convertvector(AT(f32_8, p), f64_8)
#define LOAD_f64(p) AT(f64_8, p)

/* Vectors of 32 bytes: of wider ones GCC 12 compares each lane by itself where AVX2 is the widest.
 * |x|, and the larger of two vectors of numbers. */
typedef float f32_4 VECTOR(16);
typedef double f64_4 VECTOR(32);
typedef int64_t i64_4 VECTOR(32);
#define FOUR_f32(p)  __builtin_convertvector(AT(f32_4, p), f64_4)
#define FOUR_f64(p)  AT(f64_4, p)
#define MAGNITUDE(x) ((f64_4)((i64_4)(x)&INT64_MAX))
#define LARGER(x, y) ((f64_4)((((x) > (y)) & (i64_4)(x)) | (~((x) > (y)) & (i64_4)(y))))

/* Four lanes: those from `from` on. */
#define ADD_FOUR(load, from)                                                                       \
    do {                                                                                           \
        f64_4 differences = AT(f64_4, s->differences + (from)), aa = AT(f64_4, s->a + (from));     \
        f64_4 bb = AT(f64_4, s->b + (from)), product = AT(f64_4, s->product + (from));             \
        for (int64_t i = from; i < n; i += DIFF_LANES) {                                           \
            f64_4 x = load(a + i), y = load(b + i), d = x - y, size = MAGNITUDE(d);                \
            most = LARGER(size, most);                                                             \
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

#define ADD(name, T, load)                                                                         \
    CPU_CLONES double name(diff_lanes *s, const T *a, const T *b, int64_t n)                       \
    {                                                                                              \
        f64_4 most = {0};                                                                          \
        double found = 0;                                                                          \
        ADD_FOUR(load, 0);                                                                         \
        ADD_FOUR(load, 4);                                                                         \
        ADD_FOUR(load, 8);                                                                         \
        ADD_FOUR(load, 12);                                                                        \
        for (int j = 0; j < 4; j++)                                                                \
            found = most[j] > found ? most[j] : found;                                             \
        return found;                                                                              \
    }

ADD(diff_add_f32, float, FOUR_f32)
ADD(diff_add_f64, double, FOUR_f64)

/* ---- Words that are the same ----------------------------------------------------------------- */

typedef int64_t any_i64_8 __attribute__((vector_size(64), aligned(1), may_alias));
typedef int32_t any_i32_8 __attribute__((vector_size(32), aligned(1), may_alias));
typedef int32_t i32_8 VECTOR(32);
typedef int8_t i8_8 VECTOR(8);

CPU_CLONES int64_t diff_words(void *same, uint16_t *others, const void *a, const void *b, int64_t n)
{
    int64_t found = 0;
    for (int64_t i = 0; i < n; i += 8) {
        i64_8 x = AT(any_i64_8, (const char *)a + 8 * i);
        i64_8 equal = x == AT(any_i64_8, (const char *)b + 8 * i);
        i8_8 differ = __builtin_convertvector(~equal, i8_8);
        uint64_t left;
        x &= equal;
        memcpy((char *)same + 8 * i, &x, sizeof x);
        memcpy(&left, &differ, sizeof left);
        for (left &= UINT64_C(0x0101010101010101); left; left &= left - 1)
            others[found++] = (uint16_t)(i + __builtin_ctzll(left) / 8);
    }
    return found;
}

/* The lanes as one sum, in a fixed order. */
static double total(const double *x)
{
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

#define SQUARES(name, T, load)                                                                     \
    CPU_CLONES double name(const T *x, int64_t n)                                                  \
    {                                                                                              \
        f64_8 sum0 = {0}, sum1 = {0};                                                              \
        for (int64_t i = 0; i < n; i += DIFF_LANES) {                                              \
            f64_8 v = load(x + i), w = load(x + i + 8);                                            \
            sum0 += v * v;                                                                         \
            sum1 += w * w;                                                                         \
        }                                                                                          \
        double lanes[8];                                                                           \
        sum0 += sum1;                                                                              \
        memcpy(lanes, &sum0, sizeof lanes);                                                        \
        return total(lanes);                                                                       \
    }

SQUARES(diff_squares_f32, float, LOAD_f32)
SQUARES(diff_squares_f64, double, LOAD_f64)

/* Two codes in each 32 bits: the upper one is a float32 without the lower, which is one when it is
 * shifted up. So no lanes change their places. */
#define UPPER(two)       ((f32_8)((two) & (int32_t)0xffff0000))
#define LOWER(two)       ((f32_8)((two) << 16))
#define TWO_SQUARES(two) (UPPER(two) * UPPER(two) + LOWER(two) * LOWER(two))

CPU_CLONES double diff_squares_bf16(const void *codes, int64_t n)
{
    f64_8 sum0 = {0}, sum1 = {0};
    for (int64_t i = 0; i < n; i += 32) {
        i32_8 x = AT(any_i32_8, (const char *)codes + 2 * i);
        i32_8 y = AT(any_i32_8, (const char *)codes + 2 * i + 32);
        sum0 += __builtin_convertvector(TWO_SQUARES(x), f64_8);
        sum1 += __builtin_convertvector(TWO_SQUARES(y), f64_8);
    }
    double lanes[8];
    sum0 += sum1;
    memcpy(lanes, &sum0, sizeof lanes);
    return total(lanes);
}

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

#define UNEQUAL(name, T)                                                                           \
    CPU_CLONES static int64_t name(const char *a, const char *b, int64_t n)                        \
    {                                                                                              \
        int64_t unequal = 0;                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T x, y;                                                                                \
            memcpy(&x, a + i * (int64_t)sizeof x, sizeof x);                                       \
            memcpy(&y, b + i * (int64_t)sizeof y, sizeof y);                                       \
            unequal += x != y;                                                                     \
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
    ((code) & sign ? -(wide)((code) & (sign - 1)) : (wide)((code) & (sign - 1)))

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
