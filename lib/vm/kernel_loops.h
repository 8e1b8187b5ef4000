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

#define READ0 const T a = 0, b = 0, c = 0;
#define READ1 const T a = (T)pa[i], b = 0, c = 0;
#define READ2 const T a = (T)pa[i], b = (T)pb[i], c = 0;
#define READ3 const T a = (T)pa[i], b = (T)pb[i], c = (T)pc[i];

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

/* A loop over arity arrays of E that computes in T, named after the operation and the
 * type in use; and its function of one element, with _at in the name. */
#define LOOP(name, arity, expression)                                                              \
    static inline T JOIN(name##_at, SUFFIX)(const T a, const T b, const T c, const T k0,           \
                                            const T k1, const T k2, const T k3)                    \
    {                                                                                              \
        (void)a, (void)b, (void)c, (void)k0, (void)k1, (void)k2, (void)k3;                         \
        return (T)(expression);                                                                    \
    }                                                                                              \
                                                                                                   \
    static void JOIN(name, SUFFIX)(void *dst, const void *va, const void *vb, const void *vc,      \
                                   const void *vk, int64_t n)                                      \
    {                                                                                              \
        E *d = dst;                                                                                \
        const E *pa = va, *pb = vb, *pc = vc;                                                      \
        const T *k = vk;                                                                           \
        const T k0 = k[0], k1 = k[1], k2 = k[2], k3 = k[3];                                        \
        (void)pa, (void)pb, (void)pc, (void)k0, (void)k1, (void)k2, (void)k3;                      \
        NO_CARRY for (int64_t i = 0; i < n; i++)                                                   \
        {                                                                                          \
            READ##arity d[i] = (E)JOIN(name##_at, SUFFIX)(a, b, c, k0, k1, k2, k3);                \
        }                                                                                          \
    }

/* A loop over curve_sin or curve_cos, which are for numbers that are not too large: blocks in which
 * all are so become vectors. Both ways give the same bits. */
#define TURN_LOOP(name)                                                                            \
    static void JOIN(name, SUFFIX)(void *dst, const void *va, const void *vb, const void *vc,      \
                                   const void *vk, int64_t n)                                      \
    {                                                                                              \
        (void)vb, (void)vc, (void)vk;                                                              \
        for (int64_t at = 0; at < n; at += TURN_BLOCK) {                                           \
            E *d = (E *)dst + at;                                                                  \
            const E *pa = (const E *)va + at;                                                      \
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
#define HAS_W(...) __VA_ARGS__
#define HAS_I(...) __VA_ARGS__
#define HAS__(...)
#define LOOP_F(name, loop, f, w, i, arity, kind, text, expression)                                 \
    HAS_##f(LOOP(loop, arity, expression))
#define LOOP_W(name, loop, f, w, i, arity, kind, text, expression)                                 \
    HAS_##w(LOOP(loop, arity, expression))
#define LOOP_I(name, loop, f, w, i, arity, kind, text, expression)                                 \
    HAS_##i(LOOP(loop, arity, expression))
#define FLOAT_LOOPS PROG_OPS(LOOP_F) KERNEL_MAP(LOOP_F) TURN_LOOP(sin) TURN_LOOP(cos)

/* ---- float32 --------------------------------------------------------------------------------- */

#define OF_T(function) function##f
#define T              float
#define E              T
#define SUFFIX         _f32
FLOAT_LOOPS
#undef OF_T
#undef T
#undef E
#undef SUFFIX

/* ---- float32, with operands of bfloat16 ------------------------------------------------------ */

/* Each with its operands of bfloat16, as bits. A mean of such arrays is bound by memory, and
 * widening one of them first costs as many stores as the operation itself. */
#define NARROW_KERNELS(X)                                                                          \
    X(PROG_ADD, add, 3)                                                                            \
    X(PROG_SUB, sub, 3)                                                                            \
    X(PROG_MUL, mul, 1)                                                                            \
    X(KERNEL_LIN1, lin1, 1)                                                                        \
    X(KERNEL_LIN2, lin2, 3)                                                                        \
    X(KERNEL_LIN2, lin2, 1)                                                                        \
    X(KERNEL_LIN2, lin2, 2)                                                                        \
    X(KERNEL_LIN3, lin3, 7)                                                                        \
    X(KERNEL_LIN3, lin3, 6)

static inline float read_operand(const void *from, int narrow, int64_t i)
{
    curve_bitsf x = {.number = 0};
    if (!narrow)
        return ((const float *)from)[i];
    x.bits = (unsigned)((const uint16_t *)from)[i] << 16;
    return x.number;
}

#define NARROW_LOOP(number, loop, which)                                                           \
    static void loop##_bf16_##which(void *dst, const void *va, const void *vb, const void *vc,     \
                                    const void *vk, int64_t n)                                     \
    {                                                                                              \
        float *d = dst;                                                                            \
        const float *k = vk;                                                                       \
        const float k0 = k[0], k1 = k[1], k2 = k[2], k3 = k[3];                                    \
        NO_CARRY for (int64_t i = 0; i < n; i++)                                                   \
        {                                                                                          \
            d[i] = loop##_at_f32(read_operand(va, (which)&1, i), read_operand(vb, (which)&2, i),   \
                                 read_operand(vc, (which)&4, i), k0, k1, k2, k3);                  \
        }                                                                                          \
    }

NARROW_KERNELS(NARROW_LOOP)

static kernel_loop *narrow_loop(int kernel, int which)
{
#define NARROW_CASE(number, loop, bits)                                                            \
    if (kernel == (number) && which == (bits))                                                     \
        return loop##_bf16_##bits;
    NARROW_KERNELS(NARROW_CASE)
#undef NARROW_CASE
    return NULL;
}

/* ---- float64 --------------------------------------------------------------------------------- */

#define OF_T(function) function
#define T              double
#define E              T
#define SUFFIX         _f64
FLOAT_LOOPS
#undef E
#undef SUFFIX

/* ---- float32 arrays, computed in binary64 ---------------------------------------------------- */

#define E      float
#define SUFFIX _wide
PROG_OPS(LOOP_W) KERNEL_MAP(LOOP_W)
#undef OF_T
#undef T
#undef E
#undef SUFFIX

/* ---- int64 ----------------------------------------------------------------------------------- */

#define OF_T(function) function##i
#define T              int64_t
#define E              T
#define SUFFIX         _i64
PROG_OPS(LOOP_I) KERNEL_MAP(LOOP_I)
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
 * than a short row. */
#define SPREAD(name, T)                                                                            \
    typedef T name##_some __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T))));         \
                                                                                                   \
    static void name(T *to, const T *x, int64_t skip, int64_t n, int64_t row)                      \
    {                                                                                              \
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
#define ENTRY_F32(name, loop, f, w, i, ...)  HAS_##f([name] = loop##_f32, )
#define ENTRY_F64(name, loop, f, w, i, ...)  HAS_##f([name] = loop##_f64, )
#define ENTRY_WIDE(name, loop, f, w, i, ...) HAS_##w([name] = loop##_wide, )
#define ENTRY_I64(name, loop, f, w, i, ...)  HAS_##i([name] = loop##_i64, )

const kernel_table KERNEL_TABLE = {
    KERNEL_NAME,
    {
        [PROG_F32] = {PROG_OPS(ENTRY_F32) KERNEL_MAP(ENTRY_F32)},
        [PROG_F64] = {PROG_OPS(ENTRY_F64) KERNEL_MAP(ENTRY_F64)},
        [PROG_I64] = {PROG_OPS(ENTRY_I64) KERNEL_MAP(ENTRY_I64)},
        [KERNEL_WIDE] = {PROG_OPS(ENTRY_WIDE) KERNEL_MAP(ENTRY_WIDE)},
    },
    sum_lanes,
    spread,
    normals,
    uniforms,
    KERNEL_VECTOR / 32,
    narrow_loop,
};

#endif
