/* Compiles the kernels of cuda/ for the CPU, so that their results can be compared with those of
 * the CPU's table on any machine. Threads of a launch run one behind the other: kernels that wait
 * for each other would not work, and there are none. */
#ifndef DEVICE_SHIM_HH
#define DEVICE_SHIM_HH

#include <math.h>

#define __device__
#define __global__
#ifdef __OPTIMIZE__
#define __forceinline__ inline __attribute__((always_inline))
#else
#define __forceinline__ inline /* rules and tests, which compile faster so */
#endif
#define __align__(n)    __attribute__((aligned(n)))

/* Threads run one behind the other, so each reads the elements itself that others would hand on. */
#define KV_HANDED(x, thread, where) (where)

/* The bits that a GPU gives a float32 that is not a number. */
inline float shim_made(float x)
{
    unsigned bits = 0x7fffffff;
    if (x != x)
        __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
#define KV_MADE(x) shim_made(x)

struct shim_index {
    unsigned x;
};

/* The indices of the running thread. */
inline thread_local shim_index threadIdx, blockIdx, blockDim, gridDim;

/* A kernel's loop over its threads: shim_NAME(arguments, blocks, threads of each). */
#define KV_KERNEL(name)                                                                            \
    extern "C" void shim_##name(const job_list *l, unsigned blocks, unsigned threads)              \
    {                                                                                              \
        gridDim.x = blocks;                                                                        \
        blockDim.x = threads;                                                                      \
        for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)                                    \
            for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)                            \
                name(*l);                                                                          \
    }

#endif
