/* Conversions and copies, of whole arrays and of rows by number. The counterpart of
 * lib/cpu/convert.c, and of the gathering in lib/cpu/sum_rows.c. */
#include "cuda/job.h"

#include "cuda/kernel_element.cuh"

/* Eight elements at a time: at least one of the two sides then moves 16 bytes or more. */
enum { TOGETHER = 8 };

template <class TO, class FROM>
KV_DEVICE void convert_eight(const job_item *j, long long i)
{
    typedef typename TO::item to;
    typedef typename FROM::item from;
    enum { NT = sizeof(to) > 2 ? 16 / sizeof(to) : 8 };
    enum { NF = sizeof(from) > 2 ? 16 / sizeof(from) : 8 };
    typedef kv_pack<to, NT> to_pack;
    typedef kv_pack<from, NF> from_pack;
    from_pack x[TOGETHER / NF];
    to_pack y[TOGETHER / NT];
    for (int p = 0; p < TOGETHER / NF; p++)
        x[p] = ((const from_pack *)((const from *)j->src[0] + i))[p];
    for (int k = 0; k < TOGETHER; k++)
        y[k / NT].v[k % NT] = kv_convert<TO, FROM>::run(x[k / NF].v[k % NF]);
    for (int p = 0; p < TOGETHER / NT; p++)
        ((to_pack *)((to *)j->dst + i))[p] = y[p];
}

template <class TO, class FROM>
KV_DEVICE void convert_tile(const job_item *j, long long at, long long m)
{
    typedef typename TO::item to;
    typedef typename FROM::item from;
    long long eights = kv_aligned(j->dst) && kv_aligned(j->src[0]) ? m / TOGETHER : 0;
    for (long long p = kv_lane(); p < eights; p += JOB_TEAM)
        convert_eight<TO, FROM>(j, at + p * TOGETHER);
    for (long long i = at + eights * TOGETHER + kv_lane(); i < at + m; i += JOB_TEAM)
        ((to *)j->dst)[i] = kv_convert<TO, FROM>::run(((const from *)j->src[0])[i]);
}

template <class TO>
KV_DEVICE void convert_to(const job_item *j, long long at, long long m)
{
    switch (j->from) {
#define FROM_CASE(T)                                                                               \
    case T::dtype:                                                                                 \
        convert_tile<TO, T>(j, at, m);                                                             \
        break;
        KV_EACH_DTYPE(FROM_CASE)
    }
}

/* dst[i] = src[0][i], converted. */
extern "C" __global__ void kv_convert_list(job_list l)
{
    KV_EACH_TILE(l, j, at, m)
    {
        switch (j->to) {
#define TO_CASE(T)                                                                                 \
    case T::dtype:                                                                                 \
        convert_to<T>(j, at, m);                                                                   \
        break;
            KV_EACH_DTYPE(TO_CASE)
        }
    }
}
KV_KERNEL(kv_convert_list)

template <class T>
KV_DEVICE void gather_tile(const job_item *j, long long at, long long m)
{
    typedef typename T::item item;
    for (long long i = at + kv_lane(); i < at + m; i += JOB_TEAM) {
        long long k = i / j->row, column = i - k * j->row, row = j->index[k];
        item x = 0;
        if (row >= 0)
            x = kv_convert<T, T>::run(((const item *)j->src[0])[row * j->row + column]);
        ((item *)j->dst)[i] = x;
    }
}

/* Row k of dst = row index[k] of src[0], or zeros where that is negative; of one dtype. */
extern "C" __global__ void kv_gather_rows(job_list l)
{
    KV_EACH_TILE(l, j, at, m)
    {
        switch (j->to) {
#define GATHER_CASE(T)                                                                             \
    case T::dtype:                                                                                 \
        gather_tile<T>(j, at, m);                                                                  \
        break;
            KV_EACH_DTYPE(GATHER_CASE)
        }
    }
}
KV_KERNEL(kv_gather_rows)
