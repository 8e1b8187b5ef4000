/* The loops themselves, compiled once by each file that includes this. Such a file defines
 * KERNEL_TABLE, the name of the table to make, KERNEL_NAME, what the table is called, and
 * KERNEL_VECTOR, how many bytes its vectors have.
 *
 * A loop's operands may be its destination, element by element, so `restrict` would be a lie;
 * NO_CARRY says what is true. -ffp-contract=off keeps every operation's own rounding, whatever
 * instructions the compiler may use.
 */
#ifdef KERNEL_TABLE

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "vm/arith.h"
#include "vm/curve.h"
#include "vm/kernel.h"
#include "vm/noise.h"

#define READ0 const T a = pa[i] * k0, b = pb[i] * k1; /* with factors */
#define READ1 const T a = pa[i];
#define READ2 const T a = pa[i], b = pb[i];
#define READ3 const T a = pa[i], b = pb[i], c = pc[i];

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

/* A loop over arrays, named after the operation and the type in use; read: how a, b and c are. */
#define LOOP_OF(name, read, expression)                                                            \
    static void JOIN(name, SUFFIX)(void *dst, const void *va, const void *vb, const void *vc,      \
                                   int64_t n)                                                      \
    {                                                                                              \
        T *d = dst;                                                                                \
        const T *pa = va, *pb = vb, *pc = vc;                                                      \
        const T k0 = read == 0 ? pc[0] : 0, k1 = read == 0 ? pc[8 / sizeof(T)] : 0;                \
        (void)pa, (void)pb, (void)pc, (void)k0, (void)k1;                                          \
        NO_CARRY for (int64_t i = 0; i < n; i++)                                                   \
        {                                                                                          \
            READ##read d[i] = (T)(expression);                                                     \
        }                                                                                          \
    }
#define LOOP(name, arity, expression)   LOOP_OF(name, arity, expression)
#define SCALED(name, arity, expression) LOOP_OF(name##_scaled, 0, expression)

/* A loop over curve_sin or curve_cos, which are for numbers that are not too large: blocks in which
 * all are so become vectors. Both ways give the same bits. */
#define TURN_LOOP(name)                                                                            \
    static void JOIN(name, SUFFIX)(void *dst, const void *va, const void *vb, const void *vc,      \
                                   int64_t n)                                                      \
    {                                                                                              \
        (void)vb, (void)vc;                                                                        \
        for (int64_t at = 0; at < n; at += TURN_BLOCK) {                                           \
            T *d = (T *)dst + at;                                                                  \
            const T *pa = (const T *)va + at;                                                      \
            int64_t m = n - at < TURN_BLOCK ? n - at : TURN_BLOCK;                                 \
            int far = 0;                                                                           \
            for (int64_t i = 0; i < m; i++)                                                        \
                far |= !(fabs((double)pa[i]) <= CURVE_TURNS_MAX);                                  \
            NO_CARRY for (int64_t i = 0; i < m && !far; i++) d[i] = OF_T(curve_##name)(pa[i]);     \
            for (int64_t i = 0; i < m && far; i++)                                                 \
                d[i] = OF_T(curve_any_##name)(pa[i]);                                              \
        }                                                                                          \
    }

enum { TURN_BLOCK = 256 };

/* The loops of a type are those whose line in op_list.h has its letter. */
#define HAS_F(...) __VA_ARGS__
#define HAS_V(...)
#define HAS_S(...) __VA_ARGS__
#define HAS_I(...) __VA_ARGS__
#define HAS__(...)
#define SCALES_F(...)
#define SCALES_V(...)
#define SCALES_S(...) __VA_ARGS__
#define SCALES__(...)
#define LOOP_F(name, loop, f, i, arity, kind, text, expression)                                    \
    HAS_##f(LOOP(loop, arity, expression)) SCALES_##f(SCALED(loop, arity, expression))
#define LOOP_I(name, loop, f, i, arity, kind, text, expression)                                    \
    HAS_##i(LOOP(loop, arity, expression))
#define FLOAT_LOOPS PROG_OPS(LOOP_F) TURN_LOOP(sin) TURN_LOOP(cos)

/* ---- float32 --------------------------------------------------------------------------------- */

#define OF_T(function) function##f
#define T              float
#define SUFFIX         _f32
FLOAT_LOOPS
#undef OF_T
#undef T
#undef SUFFIX

/* ---- float64 --------------------------------------------------------------------------------- */

#define OF_T(function) function
#define T              double
#define SUFFIX         _f64
FLOAT_LOOPS
#undef OF_T
#undef T
#undef SUFFIX

/* ---- int64 ----------------------------------------------------------------------------------- */

#define OF_T(function) function##i
#define T              int64_t
#define SUFFIX         _i64
PROG_OPS(LOOP_I)
#undef OF_T

/* ---- Sums ------------------------------------------------------------------------------------ */

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HAVE_SHUFFLES
#endif
#endif

#ifdef HAVE_SHUFFLES
typedef float lanes __attribute__((vector_size(4 * KERNEL_LANES)));
typedef lanes lanes_anywhere __attribute__((aligned(4), may_alias));

/* KERNEL_LANES terms of each lane are turned, so that one addition serves all lanes. */
static inline void add_turned(lanes *total, const kernel_terms *t, int64_t i)
{
    const float *from = (const float *)t->x + i;
    lanes x[8], y[8];
    /* GCC 12 copies vectors through memory where it does not unroll */
#pragma GCC unroll 8
    for (int l = 0; l < 8; l++)
        x[l] = *(const lanes_anywhere *)(from + l * t->stride);
    for (int l = 0; l < 8 && t->ahead && i % 16 == 0; l++)
        __builtin_prefetch(from + l * t->stride + t->ahead, 0, 2);
    for (int l = 0; l < 8 && t->squares; l++)
        x[l] *= x[l];
    for (int l = 0; l < 8; l += 2) {
        y[l] = __builtin_shufflevector(x[l], x[l + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        y[l + 1] = __builtin_shufflevector(x[l], x[l + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int l = 0; l < 8; l += 4) {
        x[l] = __builtin_shufflevector(y[l], y[l + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        x[l + 1] = __builtin_shufflevector(y[l], y[l + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        x[l + 2] = __builtin_shufflevector(y[l + 1], y[l + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        x[l + 3] = __builtin_shufflevector(y[l + 1], y[l + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int l = 0; l < 4; l++)
        *total += __builtin_shufflevector(x[l], x[l + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    for (int l = 0; l < 4; l++)
        *total += __builtin_shufflevector(x[l], x[l + 4], 4, 5, 6, 7, 12, 13, 14, 15);
}

/* count is known where this is inlined, so that all totals stay in registers. */
static inline __attribute__((always_inline)) void sum_some(const kernel_terms *terms, int count,
                                                           int64_t n)
{
    lanes total[KERNEL_SUMS];
#pragma GCC unroll 4
    for (int s = 0; s < count; s++)
        total[s] = *(const lanes_anywhere *)terms[s].sums;
    /* Both halves of a cache line one behind the other: lanes that begin at multiples of a page
     * share their places in the first cache, which has no more than for one of the terms. */
    for (int64_t i = 0; i < n; i += 2 * KERNEL_LANES) {
#pragma GCC unroll 4
        for (int s = 0; s < count; s++) {
            add_turned(&total[s], &terms[s], i);
            if (i + KERNEL_LANES < n)
                add_turned(&total[s], &terms[s], i + KERNEL_LANES);
        }
    }
#pragma GCC unroll 4
    for (int s = 0; s < count; s++)
        *(lanes_anywhere *)terms[s].sums = total[s];
}

static void sum_lanes(const kernel_terms *terms, int count, int64_t n)
{
    if (count == 1)
        sum_some(terms, 1, n);
    else if (count == 2)
        sum_some(terms, 2, n);
    else if (count == 3)
        sum_some(terms, 3, n);
    else
        sum_some(terms, 4, n);
}
#else
static void sum_lanes(const kernel_terms *terms, int count, int64_t n)
{
    for (int s = 0; s < count; s++)
        for (int64_t i = 0; i < n; i++)
            for (int l = 0; l < KERNEL_LANES; l++) {
                float x = ((const float *)terms[s].x)[l * terms[s].stride + i];
                ((float *)terms[s].sums)[l] += terms[s].squares ? x * x : x;
            }
}
#endif

/* ---- Random numbers: normal() of noise.h, and uniform() -------------------------------------- */

/* A product of two words of 32 bits needs a lane of 64. Compilers widen the words of each round and
 * narrow its products again, with a shuffle for each, which takes three times as long as the
 * products. Here the words stay in lanes of 64 bits through all rounds: what stands above them is
 * ignored by the next product, and cut off at the end.
 */
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

typedef arith_bits noise_lanes __attribute__((vector_size(KERNEL_VECTOR)));

/* The products of the low halves. */
static inline noise_lanes noise_multiply(noise_lanes a, noise_lanes b)
{
#if KERNEL_VECTOR == 64
    return (noise_lanes)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif KERNEL_VECTOR == 32
    return (noise_lanes)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
    return (noise_lanes)_mm_mul_epu32((__m128i)a, (__m128i)b);
#endif
}

/* Makes the words of the NOISE_LANES blocks that follow `counter`, which is that of the first one;
 * only the low halves count. */
static void noise_blocks(arith_bits words[4][NOISE_LANES], philox counter, arith_bits seed)
{
    enum { LANES = sizeof(noise_lanes) / sizeof(arith_bits) };
    const noise_lanes zero = {0}, multiply0 = zero + PHILOX_MULTIPLY_0,
                      multiply1 = zero + PHILOX_MULTIPLY_1;
    noise_lanes place;
    for (int l = 0; l < LANES; l++)
        place[l] = (arith_bits)l;
    for (int at = 0; at < NOISE_LANES; at += LANES) {
        noise_lanes a = place + (counter.word[0] + (unsigned)at), b = zero + counter.word[1];
        noise_lanes c = zero + counter.word[2], d = zero + counter.word[3];
        unsigned key0 = (unsigned)seed, key1 = (unsigned)(seed >> 32);
        for (int i = 0; i < PHILOX_ROUNDS; i++) {
            noise_lanes p = noise_multiply(a, multiply0), q = noise_multiply(c, multiply1);
            a = (q >> 32) ^ b ^ (zero + key0);
            b = q;
            c = (p >> 32) ^ d ^ (zero + key1);
            d = p;
            key0 += PHILOX_STEP_0;
            key1 += PHILOX_STEP_1;
        }
        /* The builtin is a store; memcpy itself would be a call that checks the bounds. */
        __builtin_memcpy(&words[0][at], &a, sizeof a);
        __builtin_memcpy(&words[1][at], &b, sizeof b);
        __builtin_memcpy(&words[2][at], &c, sizeof c);
        __builtin_memcpy(&words[3][at], &d, sizeof d);
    }
}
#else
static void noise_blocks(arith_bits words[4][NOISE_LANES], philox counter, arith_bits seed)
{
    for (unsigned l = 0; l < NOISE_LANES; l++) {
        philox x = counter;
        x.word[0] += l;
        x = philox_rounds(x, (unsigned)seed, (unsigned)(seed >> 32));
        for (int w = 0; w < 4; w++)
            words[w][l] = x.word[w];
    }
}
#endif

/* The numbers of a group: noise_normal of NOISE_GROUP elements. */
static void noise_group(float *to, arith_bits seed, arith_bits draw, arith_bits group)
{
    arith_bits words[4][NOISE_LANES];
    noise_blocks(words, philox_counter(PHILOX_RULES, draw, group * NOISE_LANES), seed);
    NO_CARRY for (int l = 0; l < NOISE_LANES; l++)
    {
        noise_pair((unsigned)words[0][l], (unsigned)words[1][l], &to[l], &to[NOISE_LANES + l]);
    }
    NO_CARRY for (int l = 0; l < NOISE_LANES; l++)
    {
        noise_pair((unsigned)words[2][l], (unsigned)words[3][l], &to[2 * NOISE_LANES + l],
                   &to[3 * NOISE_LANES + l]);
    }
}

static void normals(float *to, uint64_t seed, uint64_t draw, uint64_t from, int64_t n)
{
    float group[NOISE_GROUP];
    while (n > 0) {
        int64_t skip = (int64_t)(from % NOISE_GROUP), m = NOISE_GROUP - skip;
        m = m < n ? m : n;
        noise_group(m == NOISE_GROUP ? to : group, seed, draw, from / NOISE_GROUP);
        for (int64_t i = 0; i < m && m < NOISE_GROUP; i++)
            to[i] = group[skip + i];
        to += m;
        from += (uint64_t)m;
        n -= m;
    }
}

#define UNIFORMS(name, T)                                                                          \
    static void name(T *to, uint64_t seed, philox counter, int64_t ngroups)                        \
    {                                                                                              \
        for (; ngroups > 0; ngroups--, to += NOISE_GROUP) {                                        \
            arith_bits words[4][NOISE_LANES];                                                      \
            noise_blocks(words, counter, seed);                                                    \
            for (int w = 0; w < 4; w++)                                                            \
                NO_CARRY for (int l = 0; l < NOISE_LANES; l++)                                     \
                {                                                                                  \
                    to[w * NOISE_LANES + l] = (T)(int)((unsigned)words[w][l] >> 8) * (T)0x1p-24;   \
                }                                                                                  \
            counter.word[0] += NOISE_LANES;                                                        \
            counter.word[1] += counter.word[0] == 0;                                               \
        }                                                                                          \
    }

UNIFORMS(uniform_floats, float)
UNIFORMS(uniform_doubles, double)

static void uniforms(void *to, bool wide, uint64_t seed, uint64_t hash, uint64_t group,
                     int64_t ngroups)
{
    uint64_t at = group * NOISE_LANES;
    philox counter = {{(unsigned)at, (unsigned)(at >> 32), (unsigned)hash, (unsigned)(hash >> 32)}};
    if (wide)
        uniform_doubles(to, seed, counter, ngroups);
    else
        uniform_floats(to, seed, counter, ngroups);
}

/* ---- The table ------------------------------------------------------------------------------- */

/* Eight elements at a time: what a compiler puts around a loop of unknown length would take longer
 * than a short row. So would finding its begin and end, where rows are whole and of eights. */
#define SPREAD(name, T)                                                                            \
    typedef T name##_some __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T))));         \
                                                                                                   \
    static inline __attribute__((always_inline))                                                   \
    T *name##_rows(T *to, const T *x, int64_t rows, int64_t row)                                   \
    {                                                                                              \
        for (; rows > 0; rows--, x++) {                                                            \
            const T y = *x;                                                                        \
            for (int64_t i = 0; i < row; i += 8, to += 8)                                          \
                *(name##_some *)(void *)to = (name##_some){y, y, y, y, y, y, y, y};                \
        }                                                                                          \
        return to;                                                                                 \
    }                                                                                              \
                                                                                                   \
    static void name(T *to, const T *x, int64_t skip, int64_t n, int64_t row)                      \
    {                                                                                              \
        int64_t rows = n > 0 && skip == 0 && row % 8 == 0 ? n / row : 0;                           \
        to = row == 8 ? name##_rows(to, x, rows, 8) : name##_rows(to, x, rows, row);               \
        x += rows;                                                                                 \
        n -= rows * row;                                                                           \
        for (int64_t m; n > 0; n -= m, to += m, x++, skip = 0) {                                   \
            const T y = *x;                                                                        \
            const name##_some some = {y, y, y, y, y, y, y, y};                                     \
            int64_t i = 0;                                                                         \
            m = n < row - skip ? n : row - skip;                                                   \
            for (; i + 8 <= m; i += 8)                                                             \
                *(name##_some *)(void *)(to + i) = some;                                           \
            for (; i < m; i++)                                                                     \
                to[i] = y;                                                                         \
        }                                                                                          \
    }

SPREAD(spread_floats, float)
SPREAD(spread_doubles, double)

static void spread(void *to, const void *x, int bytes, int64_t skip, int64_t n, int64_t row)
{
    if (bytes == 4)
        spread_floats(to, x, skip, n, row);
    else
        spread_doubles(to, x, skip, n, row);
}

#undef HAS_V
#define HAS_V(...) __VA_ARGS__
#define ENTRY_F32(name, loop, f, i, ...) HAS_##f([name] = loop##_f32, )
#define ENTRY_F64(name, loop, f, i, ...) HAS_##f([name] = loop##_f64, )
#define ENTRY_I64(name, loop, f, i, ...) HAS_##i([name] = loop##_i64, )
#define SCALED_F32(name, loop, f, ...)   SCALES_##f([name] = loop##_scaled_f32, )
#define SCALED_F64(name, loop, f, ...)   SCALES_##f([name] = loop##_scaled_f64, )

const kernel_table KERNEL_TABLE = {
    KERNEL_NAME,
    {
        [PROG_F32] = {PROG_OPS(ENTRY_F32)},
        [PROG_F64] = {PROG_OPS(ENTRY_F64)},
        [PROG_I64] = {PROG_OPS(ENTRY_I64)},
    },
    {
        [PROG_F32] = {PROG_OPS(SCALED_F32)},
        [PROG_F64] = {PROG_OPS(SCALED_F64)},
    },
    sum_lanes,
    spread,
    normals,
    uniforms,
    KERNEL_VECTOR / 32,
};

#endif
