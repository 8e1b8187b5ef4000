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
#include "vm/kernel_noise.h"

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

/* KERNEL_LANES terms of each lane are turned, so that one addition serves all lanes. */
static inline void add_turned(lanes *total, const kernel_terms *t, int64_t i)
{
    const float *from = t->x;
    lanes x[8], y[8];
    for (int l = 0; l < 8; l++)
        memcpy(&x[l], from + l * t->stride + i, sizeof x[l]);
    for (int l = 0; l < 8 && t->ahead && i % 16 == 0; l++)
        __builtin_prefetch(from + l * t->stride + i + t->ahead, 0, 2);
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
    for (int s = 0; s < count; s++)
        memcpy(&total[s], terms[s].sums, sizeof total[s]);
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
    for (int s = 0; s < count; s++)
        memcpy(terms[s].sums, &total[s], sizeof total[s]);
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

#define SPREAD(name, T)                                                                            \
    static void name(T *to, const T *x, int64_t skip, int64_t n, int64_t row)                      \
    {                                                                                              \
        for (int64_t m; n > 0; n -= m, to += m, x++, skip = 0) {                                   \
            const T number = *x;                                                                   \
            m = n < row - skip ? n : row - skip;                                                   \
            for (int64_t i = 0; i < m; i++)                                                        \
                to[i] = number;                                                                    \
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
