/* The head of the loops that src/optimizers/loops.c writes into the build folder: one for all
 * instructions of a program, for each program of the optimizers, found by prog_hash. Such a loop
 * reads and writes every array once, and its divisions and roots run while it waits for memory;
 * block by block, one instruction after the other, they do not.
 *
 * The statements are those that GPUs get (prog_text.h); cuda/rule_element.cuh has the same names.
 * A last pass over arrays of bfloat16 packs: it stores bfloat16 where its program stores float32.
 *
 * A loop is compiled for what the processor can do, as kernels are; on x86-64 not for those without
 * AVX2, which run its program block by block.
 */
#pragma once

#include <math.h>

#include "base/compiler.h"
#include "vm/arith.h"
#include "vm/curve.h"
#include "vm/kernel.h"

#define KV_OF_F32(function) function##f
#define KV_OF_F64(function) function

#define KV_CONVERT(to, from, x) to##_of_##from(x)
#define kv_t_f32_of_kv_t_f64    (float)
#define kv_t_f64_of_kv_t_f32    (double)

/* A bfloat16 is the upper half of a word. */
typedef uint32_t kv_u16;

static inline float kv_t_f32_of_kv_t_bf16(kv_u16 word)
{
    const curve_bitsf x = {.bits = word};
    return x.number;
}

/* Two of them that follow each other, the first one in the lower half; at any address. */
typedef uint32_t loop_pair __attribute__((aligned(2), may_alias));

/* The size of a float32 as bits: nan is above infinity, that above all numbers. */
static inline uint32_t loop_size(float x)
{
    const curve_bitsf bits = {.number = x};
    return bits.bits & 0x7fffffff;
}

/* A float32 as a bfloat16, rounded to nearest even; of a nan anything. */
static inline kv_u16 loop_round(float x)
{
    const curve_bitsf bits = {.number = x};
    return (bits.bits + 0x7fff + (bits.bits >> 16 & 1)) & 0xffff0000;
}

/* Constants, from the pool of the program. */
#define KV_K_F32(word) (*(const float *)(const void *)(pool + (word)))
#define KV_K_F64(word) (*(const double *)(const void *)(pool + (word)))

/* first: the element of array 1, which the statements call first_x; 0: they do not. */
#define LOOP_ELEMENTS(first, ...)                                                                  \
    NO_CARRY for (int64_t i = 0; i < n; i++)                                                       \
    {                                                                                              \
        const float first_x = first;                                                               \
        (void)first_x;                                                                             \
        __VA_ARGS__                                                                                \
    }

/* The numbers are copied, since no store to an array can change a copy. */
#define LOOP_FOR(function, target, first, heads, ...)                                              \
    target static uint32_t function(void *const *array, const float *more, const uint64_t *pool,   \
                                    int64_t n)                                                     \
    {                                                                                              \
        heads;                                                                                     \
        (void)pool, (void)more;                                                                    \
        LOOP_ELEMENTS(first, __VA_ARGS__)                                                          \
        return 0;                                                                                  \
    }
#define LOOP_SUM_FOR(function, target, first, heads, ...)                                          \
    target static uint32_t function(void *const *array, const float *more, const uint64_t *pool,   \
                                    int64_t n)                                                     \
    {                                                                                              \
        heads;                                                                                     \
        (void)pool;                                                                                \
        if (more)                                                                                  \
            LOOP_ELEMENTS(first + more[i], __VA_ARGS__)                                            \
        else                                                                                       \
            LOOP_ELEMENTS(first, __VA_ARGS__)                                                      \
        return 0;                                                                                  \
    }

/* Reads and stores bfloat16 as pairs, so that all lanes have 32 bits and keep their order: codes
 * need neither be widened nor packed. */
#define LOOP_HALF(pair) ((pair) << half & 0xffff0000u)
#define LOOP_STORE(x)                                                                              \
    const uint32_t size = loop_size(x);                                                            \
    most = size > most ? size : most;                                                              \
    both |= loop_round(x) >> half;
#define LOOP_PACK_FOR(function, target, stored, heads, ...)                                        \
    target static uint32_t function(void *const *array, const float *more, const uint64_t *pool,   \
                                    int64_t n)                                                     \
    {                                                                                              \
        uint32_t most = 0;                                                                         \
        heads;                                                                                     \
        (void)pool, (void)more;                                                                    \
        NO_CARRY for (int64_t i = 0; i < n / 2; i++)                                               \
        {                                                                                          \
            uint32_t both = 0;                                                                     \
            {                                                                                      \
                enum { half = 16 };                                                                \
                __VA_ARGS__                                                                        \
            }                                                                                      \
            {                                                                                      \
                enum { half = 0 };                                                                 \
                __VA_ARGS__                                                                        \
            }                                                                                      \
            stored = both;                                                                         \
        }                                                                                          \
        return most;                                                                               \
    }

#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#define LOOP_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"
#else
#define LOOP_AVX512 "avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"
#endif
#define LOOP_EACH(one, name, ...)                                                                  \
    one(name##_avx2, __attribute__((target("avx2"))), __VA_ARGS__)                                 \
        one(name##_avx512, __attribute__((target(LOOP_AVX512))), __VA_ARGS__)
#define LOOP_ENTRY(name, hash, adds, packs) {hash, {NULL, name##_avx2, name##_avx512}, adds, packs},
#else
#define LOOP_EACH(one, name, ...)           one(name##_plain, , __VA_ARGS__)
#define LOOP_ENTRY(name, hash, adds, packs) {hash, {name##_plain}, adds, packs},
#endif

#define LOOP(name, ...)      LOOP_EACH(LOOP_FOR, name, __VA_ARGS__)
#define LOOP_SUM(name, ...)  LOOP_EACH(LOOP_SUM_FOR, name, __VA_ARGS__)
#define LOOP_PACK(name, ...) LOOP_EACH(LOOP_PACK_FOR, name, __VA_ARGS__)
