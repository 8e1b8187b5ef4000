/* The kernels for processors with AVX-512. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h> /* ahead of the target, which its functions have themselves */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))),        \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif

#include "vm/kernel.h"

#define KERNEL_TABLE  kernel_avx512
#define KERNEL_NAME   "avx512"
#define KERNEL_VECTOR 64
extern const kernel_table kernel_avx512;

#include "vm/kernel_loops.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int kernel_avx512_is_not_for_this_processor;
#endif
