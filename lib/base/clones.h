/* CPU_CLONES in front of a function compiles its loops for AVX-512, for AVX2 and for any x86-64,
 * and the right one is chosen when the program starts. Elsewhere, and under the sanitizers, whose
 * start-up comes too late for that choice, it is empty. The results do not depend on it. */
#ifndef BASE_CLONES_H
#define BASE_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CPU_CLONES
#endif

#endif
