/* Requests to the compiler: prefetches, clones of a function for wider vectors, loops to vectorize.
 *
 * gcc treats a function that does nothing but prefetch as one without side effects, and removes
 * calls of it. The empty volatile asm counts as a side effect, so the calls stay.
 * tests/house/compiled.bats looks for the instructions.
 */
#pragma once

/* Brings the cache line of p nearer, to read it or to write it. p need not point to anything: a
 * prefetch of an invalid address does nothing. */
static inline void prefetch(const void *p)
{
    __builtin_prefetch(p);
    __asm__ volatile("" : : "r"(p));
}

static inline void prefetch_write(const void *p)
{
    __builtin_prefetch(p, 1);
    __asm__ volatile("" : : "r"(p));
}

/* CPU_CLONES in front of a function compiles its loops for AVX-512, for AVX2 and for any x86-64,
 * and the right one is chosen when the program starts. Elsewhere, and under the sanitizers, whose
 * start-up comes too late for that choice, it is empty. The results do not depend on it. */

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CPU_CLONES
#endif

/* NO_CARRY in front of a loop says that no pass of it needs the result of another one, which the
 * compiler cannot see where the destination may be an operand: vectors are right all the same. */

#if defined(__clang__)
/* It warns of loops for which it has no vectors, such as those that call a function. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define NO_CARRY _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define NO_CARRY _Pragma("GCC ivdep")
#else
#define NO_CARRY
#endif
