/* Gradients as codes of one or two bits. The counterpart of lib/cpu/quantise.c, by the rules that
 * array/device.h states. A thread makes or reads whole 32-bit words of codes. */
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

/* The shift of the code of element k in a word: element 0 is in the highest bits of byte 0. */
KV_DEVICE int shift_of(int k, int code)
{
    int bit = k * code;
    return bit / 8 * 8 + 8 - code - bit % 8;
}

/* dst: codes of src[0] and the residual more[0]. Tiles are whole words. */
extern "C" __global__ void kv_quantise(job_list l)
{
    KV_EACH_TILE(l, j, at, m)
    {
        int in_word = 32 / j->code;
        const float *src = (const float *)j->src[0];
        float *residual = (float *)j->more[0];
        for (long long w = kv_lane(); w * in_word < m; w += JOB_TEAM) {
            unsigned word = 0;
            for (int k = 0; k < in_word && w * in_word + k < m; k++) {
                long long i = at + w * in_word + k;
                float r = residual[i] + src[i];
                unsigned bits = code_of(r, j->code, j->threshold);
                residual[i] = r - decoded(bits, j->code, j->threshold);
                word |= bits << shift_of(k, j->code);
            }
            ((unsigned *)j->dst)[at / in_word + w] = word;
        }
    }
}
KV_KERNEL(kv_quantise)

template <bool ADD> KV_DEVICE void dequantise(const job_list &l)
{
    KV_EACH_TILE(l, j, at, m)
    {
        int in_word = 32 / j->code;
        const unsigned *codes = (const unsigned *)j->src[0];
        float *dst = (float *)j->dst;
        for (long long i = at + kv_lane(); i < at + m; i += JOB_TEAM) {
            unsigned bits = codes[i / in_word] >> shift_of((int)(i % in_word), j->code);
            float x = decoded(bits & (j->code == ONE_BIT ? 1u : 3u), j->code, j->threshold);
            dst[i] = ADD ? dst[i] + x : x;
        }
    }
}

/* dst[i] = the number that code i of src[0] stands for. */
extern "C" __global__ void kv_dequantise(job_list l)
{
    dequantise<false>(l);
}
KV_KERNEL(kv_dequantise)

/* dst[i] += the same. */
extern "C" __global__ void kv_dequantise_add(job_list l)
{
    dequantise<true>(l);
}
KV_KERNEL(kv_dequantise_add)

/* dst[i] = the sum of the numbers that the codes of all sources stand for. The codes are not
 * written. Source s has the residual more[s]. */
extern "C" __global__ void kv_quantise_sum(job_list l)
{
    KV_EACH_TILE(l, j, at, m)
    {
        for (long long i = at + kv_lane(); i < at + m; i += JOB_TEAM) {
            float sum = 0;
            for (long long s = 0; s < j->nsrc; s++) {
                float *residual = (float *)j->more[s];
                float r = residual[i] + ((const float *)j->src[s])[i];
                float q = decoded(code_of(r, j->code, j->threshold), j->code, j->threshold);
                residual[i] = r - q;
                sum = sum + q;
            }
            ((float *)j->dst)[i] = sum;
        }
    }
}
KV_KERNEL(kv_quantise_sum)
