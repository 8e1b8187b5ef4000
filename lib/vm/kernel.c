/* The kernels for any processor, and which table fits this one. */
#include "vm/kernel.h"

#define KERNEL_TABLE  kernel_plain
#define KERNEL_NAME   "plain"
#define KERNEL_VECTOR 16
extern const kernel_table kernel_plain;

#include "vm/kernel_loops.h"

const kernel_form kernel_forms[PROG_NOPS] = {
#define KERNEL_FORM(name, loop, f, i, arrays, kind, text, expression)                              \
    [name] = {#expression, arrays},
    PROG_OPS(KERNEL_FORM)
#undef KERNEL_FORM
};

#if defined(__x86_64__) && defined(__GNUC__)
extern const kernel_table kernel_avx2, kernel_avx512;

const kernel_table *kernel_tables(int i)
{
    if (i == 0)
        return &kernel_plain;
    if (i > 2 || !__builtin_cpu_supports("avx2"))
        return NULL;
    if (i == 1)
        return &kernel_avx2;
    bool all = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return all ? &kernel_avx512 : NULL;
}
#else
const kernel_table *kernel_tables(int i)
{
    return i == 0 ? &kernel_plain : NULL;
}
#endif

const kernel_table *kernel_best(void)
{
    const kernel_table *best = kernel_tables(0);
    for (int i = 1; kernel_tables(i); i++)
        best = kernel_tables(i);
    return best;
}
