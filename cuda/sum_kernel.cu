/* Sums of several arrays, left to right, one launch for all keys of a call. The counterpart of
 * lib/cpu/sum.c, and of the sums in lib/cpu/sum_rows.c. */
#include "cuda/job.h"

#include "cuda/kernel_element.cuh"

/* Sixteen sums of bytes at a time would take twice the registers, and so half of the threads. */
template <class T> struct sum_work {
    typedef typename T::item item;
    enum { N = sizeof(item) == 1 ? 8 : 16 / sizeof(item) };
    const job_item *j;
    const kv_values<T> values = {j};
    item *const dst = kv_global((item *)j->dst);
    const bool packs = kv_fits<N>(dst) && values.template fit<N>();

    __device__ __forceinline__ void at(kv_i64 i, int n) const
    {
        if (packs && n == N)
            kv_store<N, true>(dst, i, n, values.template load<N, true>(i, n));
        else
            kv_store<N, false>(dst, i, n, values.template load<N, false>(i, n));
    }
};

/* dst = src[0] + src[1] + …; dst may be src[0]. */
extern "C" __global__ void kv_sum(job_list l)
{
    KV_EACH_TILE(l, j, at, m)
    {
        switch (j->to) {
#define SUM_CASE(T)                                                                                \
    case T::dtype:                                                                                 \
        kv_tile_packs<sum_work<T>>(j, at, m);                                                      \
        break;
            KV_EACH_DTYPE(SUM_CASE)
        }
    }
}
KV_KERNEL(kv_sum)

/* Row k of dst is 0, to which row index[k * nsrc + s] of src[s] is added for each s where that is
 * not negative. */
template <class T>
KV_DEVICE void sum_rows_tile(const job_item *j, long long at, long long m)
{
    typedef typename T::item item;
    for (long long i = at + kv_lane(); i < at + m; i += JOB_TEAM) {
        long long k = i / j->row, column = i - k * j->row;
        const long long *where = j->index + k * j->nsrc;
        typename kv_total<T>::type total = 0;
        for (long long s = 0; s < j->nsrc; s++)
            if (where[s] >= 0)
                total = kv_total<T>::add(total,
                                         ((const item *)j->src[s])[where[s] * j->row + column]);
        ((item *)j->dst)[i] = kv_total<T>::end(total);
    }
}

extern "C" __global__ void kv_sum_rows(job_list l)
{
    KV_EACH_TILE(l, j, at, m)
    {
        switch (j->to) {
#define SUM_ROWS_CASE(T)                                                                           \
    case T::dtype:                                                                                 \
        sum_rows_tile<T>(j, at, m);                                                                \
        break;
            KV_EACH_DTYPE(SUM_ROWS_CASE)
        }
    }
}
KV_KERNEL(kv_sum_rows)

/* ---- Sums over all elements ----
 *
 * Another order would give other bits, so the elements of a sum are added one behind the other.
 * A thread that reads a sum alone would wait for the memory most of the time, and a team for each
 * sum for its own exchange of elements. So 8 threads share one: each reads 16 bytes of a line of
 * 128, of which nothing is read in vain, and hands its elements to the others, all of which add
 * them all. AHEAD lines are on their way while one is added.
 */

enum { SHARE = JOB_TEAM / JOB_SUMS, AHEAD = 4 };

/* The element that thread number t has read, among the threads that share a sum. Where threads run
 * one behind the other (tests/device/shim.hh) it is read again, from `where`. */
#ifndef KV_HANDED
#define KV_HANDED(x, t, where) __shfl_sync(0xffu << (kv_lane() / SHARE * SHARE), x, t, SHARE)
#endif

/* The elements from i on of n, and zeros. */
template <int N, class I> KV_DEVICE kv_pack<I, N> sum_load(const I *x, kv_i64 i, kv_i64 n, bool packs)
{
    return packs && i + N <= n ? kv_load<N, true>(x, i, N)
                               : kv_load<N, false>(x, i, n - i < N ? (int)(n - i) : N);
}

/* Zeros behind the end change no sum: it began with 0, so it is never -0. */
template <class I> KV_DEVICE I sum_in_order(const I *x, kv_i64 n)
{
    enum { N = 16 / sizeof(I), LINE = SHARE * N };
    kv_pack<I, N> lines[AHEAD];
    const kv_i64 own = kv_lane() % SHARE * N;
    const bool packs = kv_fits<N>(x);
    I total = 0;
#pragma unroll
    for (int a = 0; a < AHEAD; a++)
        lines[a] = sum_load<N>(x, a * LINE + own, n, packs);
    for (kv_i64 i = 0; i < n; i += AHEAD * LINE) {
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const kv_i64 at = i + a * LINE;
            const kv_pack<I, N> line = lines[a];
            lines[a] = sum_load<N>(x, at + AHEAD * LINE + own, n, packs);
#pragma unroll
            for (int e = 0; e < LINE; e++)
                total += KV_HANDED(line.v[e % N], e / N, at + e < n ? x[at + e] : 0);
        }
    }
    return total;
}

template <class I> KV_DEVICE void sum_part(const job_item *j, kv_i64 part, kv_i64 each)
{
    const kv_i64 from = part * each, left = j->row - from;
    const I total = sum_in_order(kv_source<I>(j, 0) + from, left < each ? left : each);
    if (kv_lane() % SHARE == 0)
        kv_global((I *)j->dst)[part] = total;
}

KV_DEVICE void sum_parts(const job_list &l, kv_i64 each)
{
    KV_EACH_TILE(l, j, at, m)
    {
        for (kv_i64 i = kv_lane() / SHARE; i < m; i += JOB_SUMS) {
            if (j->to == KV_F32)
                sum_part<float>(j, at + i, each);
            else
                sum_part<double>(j, at + i, each);
        }
    }
}

/* Element c of dst = the sum of chunk c of src[0], which has `row` elements in all. */
extern "C" __global__ void kv_sum_chunks(job_list l)
{
    sum_parts(l, JOB_CHUNK);
}
KV_KERNEL(kv_sum_chunks)

/* dst[0] = the sum of all of them. */
extern "C" __global__ void kv_sum_all(job_list l)
{
    sum_parts(l, (kv_i64)1 << 62);
}
KV_KERNEL(kv_sum_all)
