/* Sums of several arrays, left to right, one launch for all keys of a call. The counterpart of
 * lib/cpu/sum.c, and of the sums in lib/cpu/rows.c. */
#include "cuda/job.h"

#include "cuda/element.cuh"

template <class T> KV_DEVICE bool sum_is_aligned(const job_item *j)
{
    bool all = kv_aligned(j->dst);
    for (long long s = 0; s < j->nsrc; s++)
        all &= kv_aligned(j->src[s]);
    return all;
}

/* N elements of 16 bytes together. */
template <class T, int N>
KV_DEVICE void sum_pack(const job_item *j, long long i)
{
    typedef typename T::item item;
    typedef kv_pack<item, N> pack;
    pack x = *(const pack *)((const item *)j->src[0] + i);
    if (j->nsrc == 1) {
        for (int k = 0; k < N; k++)
            x.v[k] = kv_convert<T, T>::run(x.v[k]);
    } else {
        typename kv_total<T>::type total[N];
        for (int k = 0; k < N; k++)
            total[k] = kv_total<T>::begin(x.v[k]);
        for (long long s = 1; s < j->nsrc; s++) {
            pack y = *(const pack *)((const item *)j->src[s] + i);
            for (int k = 0; k < N; k++)
                total[k] = kv_total<T>::add(total[k], y.v[k]);
        }
        for (int k = 0; k < N; k++)
            x.v[k] = kv_total<T>::end(total[k]);
    }
    *(pack *)((item *)j->dst + i) = x;
}

template <class T>
KV_DEVICE void sum_tile(const job_item *j, long long at, long long m)
{
    enum { N = 16 / sizeof(typename T::item) };
    long long packs = sum_is_aligned<T>(j) ? m / N : 0;
    for (long long p = kv_lane(); p < packs; p += JOB_TEAM)
        sum_pack<T, N>(j, at + p * N);
    for (long long i = packs * N + kv_lane(); i < m; i += JOB_TEAM)
        ((typename T::item *)j->dst)[at + i] = kv_sum_at<T>(j, at + i);
}

/* dst = src[0] + src[1] + …; dst may be src[0]. */
extern "C" __global__ void kv_sum(job_list l)
{
    KV_EACH_TILE(l, j, at, m)
    {
        switch (j->to) {
#define SUM_CASE(T)                                                                                \
    case T::dtype:                                                                                 \
        sum_tile<T>(j, at, m);                                                                     \
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

/* dst[c] = the sum of the elements of chunk c of src[0], one behind the other: a thread each, since
 * another order would give other bits. */
template <class T>
KV_DEVICE void sum_chunk(const job_item *j, long long chunk)
{
    typedef typename T::item item;
    long long from = chunk * JOB_CHUNK, to = from + JOB_CHUNK < j->row ? from + JOB_CHUNK : j->row;
    const item *x = (const item *)j->src[0];
    item total = 0;
    for (long long i = from; i < to; i++)
        total += x[i];
    ((double *)j->dst)[chunk] = (double)total;
}

/* n chunks; row elements in all. */
extern "C" __global__ void kv_sum_chunks(job_list l)
{
    KV_EACH_TILE(l, j, at, m)
    {
        for (long long i = kv_lane(); i < m; i += JOB_TEAM) {
            if (j->from == KV_F32)
                sum_chunk<kv_t_f32>(j, at + i);
            else
                sum_chunk<kv_t_f64>(j, at + i);
        }
    }
}
KV_KERNEL(kv_sum_chunks)
