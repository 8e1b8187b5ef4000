/* The kernels for processors with AVX2. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h> /* ahead of the target, which its functions have themselves */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#include "vm/kernel.h"

#define KERNEL_TABLE  kernel_avx2
#define KERNEL_NAME   "avx2"
#define KERNEL_VECTOR 32
extern const kernel_table kernel_avx2;

#include "vm/kernel_loops.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int kernel_avx2_is_not_for_this_processor;
#endif
