/* Gradients as codes of one or two bits. The counterpart of lib/cpu/quantise.c, by the rules that
 * array/device.h states. */
#include "cuda/job.h"

#include "cuda/kernel_element.cuh"

enum { ONE_BIT = 1 };

/* The code of an element whose residual and gradient add up to r. */
KV_DEVICE unsigned code_of(float r, int code, float t)
{
    if (code == ONE_BIT)
        return r > t;
    return r >= t ? 3 : r <= -t ? 2 : 0;
}

/* The number that a code stands for. */
KV_DEVICE float decoded(unsigned bits, int code, float t)
{
    if (code == ONE_BIT)
        return bits ? 1.0f : -1.0f;
    return bits == 3 ? t : bits == 2 ? -t : 0.0f;
}

/* ---- Bytes of codes ----
 *
 * A thread makes or reads a byte, with the 4 or 8 floats that it stands for: these lie side by
 * side, and so do the bytes of a team. Element 0 is in a byte's highest bits.
 */

template <int CODE> struct code_byte {
    enum { N = 8 / CODE, IN_WORD = 32 / CODE, MASK = (1 << CODE) - 1 };
    typedef kv_pack<float, N> floats;

    /* The shift of the code of element e. */
    KV_DEVICE int shift(int e) { return 8 - CODE * (e + 1); }

    /* The elements of byte b that there are, of m. */
    KV_DEVICE int count(kv_i64 b, kv_i64 m)
    {
        const kv_i64 left = m - b * N;
        return left >= N ? N : left > 0 ? (int)left : 0;
    }
};

/* Makes a byte from the elements from i on: all N are there and packs fit (WHOLE), or n of them. */
template <int CODE, bool WHOLE>
KV_DEVICE unsigned quantise_byte(const float *src, float *residual, kv_i64 i, int n, float t)
{
    typedef code_byte<CODE> code;
    enum { N = code::N };
    const typename code::floats x = kv_load<N, WHOLE>(src, i, n);
    typename code::floats r = kv_load<N, WHOLE>(residual, i, n);
    unsigned byte = 0;
#pragma unroll
    for (int e = 0; e < N; e++) {
        const float sum = r.v[e] + x.v[e];
        const unsigned bits = code_of(sum, CODE, t);
        r.v[e] = sum - decoded(bits, CODE, t);
        byte |= e < n ? bits << code::shift(e) : 0;
    }
    kv_store<N, WHOLE>(residual, i, n, r);
    return byte;
}

/* The bytes behind the last element, up to the end of a word of 32 bits, are 0. */
template <int CODE> KV_DEVICE void quantise_tile(const job_item *j, kv_i64 at, kv_i64 m)
{
    typedef code_byte<CODE> code;
    const float *src = kv_source<float>(j, 0);
    const float t = j->threshold;
    float *residual = kv_more<float>(j, 0);
    kv_u8 *dst = kv_global((kv_u8 *)j->dst) + at / code::N;
    const bool packs = kv_fits<code::N>(src) && kv_fits<code::N>(residual);
    const kv_i64 bytes = (m + code::IN_WORD - 1) / code::IN_WORD * 4;
    for (kv_i64 b = kv_lane(); b < bytes; b += JOB_TEAM) {
        const int n = code::count(b, m);
        dst[b] = (kv_u8)(packs && n == code::N
                             ? quantise_byte<CODE, true>(src, residual, at + b * code::N, n, t)
                             : quantise_byte<CODE, false>(src, residual, at + b * code::N, n, t));
    }
}

/* dst: codes of src[0] and the residual more[0]. Tiles are whole words. */
extern "C" __global__ void kv_quantise(job_list l)
{
    KV_EACH_TILE(l, j, at, m)
    {
        if (j->code == ONE_BIT)
            quantise_tile<1>(j, at, m);
        else
            quantise_tile<2>(j, at, m);
    }
}
KV_KERNEL(kv_quantise)

/* Writes the floats of a byte from element i on. */
template <int CODE, bool WHOLE>
KV_DEVICE void dequantise_byte(float *dst, unsigned byte, kv_i64 i, int n, float t)
{
    typedef code_byte<CODE> code;
    enum { N = code::N };
    typename code::floats y = {};
#pragma unroll
    for (int e = 0; e < N; e++)
        y.v[e] = decoded(byte >> code::shift(e) & code::MASK, CODE, t);
    kv_store<N, WHOLE>(dst, i, n, y);
}

template <int CODE> KV_DEVICE void dequantise_tile(const job_item *j, kv_i64 at, kv_i64 m)
{
    typedef code_byte<CODE> code;
    const kv_u8 *codes = kv_source<kv_u8>(j, 0) + at / code::N;
    float *dst = kv_global((float *)j->dst);
    const float t = j->threshold;
    const bool packs = kv_fits<code::N>(dst);
    for (kv_i64 b = kv_lane(); b * code::N < m; b += JOB_TEAM) {
        const int n = code::count(b, m);
        if (packs && n == code::N)
            dequantise_byte<CODE, true>(dst, codes[b], at + b * code::N, n, t);
        else
            dequantise_byte<CODE, false>(dst, codes[b], at + b * code::N, n, t);
    }
}

/* dst[i] = the number that code i of src[0] stands for. */
extern "C" __global__ void kv_dequantise(job_list l)
{
    KV_EACH_TILE(l, j, at, m)
    {
        if (j->code == ONE_BIT)
            dequantise_tile<1>(j, at, m);
        else
            dequantise_tile<2>(j, at, m);
    }
}
KV_KERNEL(kv_dequantise)

/* ---- Sums of what codes stand for ---- */

struct quantise_sum_work {
    enum { N = 4 };
    const job_item *j;
    float *const dst = kv_global((float *)j->dst);
    const int code = j->code;
    const float t = j->threshold;
    const bool packs = fit();

    __device__ __forceinline__ bool fit() const
    {
        bool all = kv_fits<N>(dst);
#pragma unroll 1
        for (kv_i64 s = 0; s < j->nsrc; s++)
            all &= kv_fits<N>(kv_source<float>(j, s)) && kv_fits<N>(kv_more<float>(j, s));
        return all;
    }

    template <bool WHOLE> __device__ __forceinline__ void add(kv_i64 i, int n) const
    {
        kv_pack<float, N> sum = {};
#pragma unroll 1
        for (kv_i64 s = 0; s < j->nsrc; s++) {
            float *residual = kv_more<float>(j, s);
            const kv_pack<float, N> x = kv_load<N, WHOLE>(kv_source<float>(j, s), i, n);
            kv_pack<float, N> r = kv_load<N, WHOLE>(residual, i, n);
#pragma unroll
            for (int e = 0; e < N; e++) {
                const float both = r.v[e] + x.v[e];
                const float q = decoded(code_of(both, code, t), code, t);
                r.v[e] = both - q;
                sum.v[e] = sum.v[e] + q;
            }
            kv_store<N, WHOLE>(residual, i, n, r);
        }
        kv_store<N, WHOLE>(dst, i, n, sum);
    }

    __device__ __forceinline__ void at(kv_i64 i, int n) const
    {
        if (packs && n == N)
            add<true>(i, n);
        else
            add<false>(i, n);
    }
};

/* dst[i] = the sum of the numbers that the codes of all sources stand for. The codes are not
 * written. Source s has the residual more[s]. */
extern "C" __global__ void kv_quantise_sum(job_list l)
{
    kv_each_pack<quantise_sum_work>(l);
}
KV_KERNEL(kv_quantise_sum)
