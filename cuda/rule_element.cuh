/* What rules need beside the expressions of lib/vm/op_list.h. The text of a rule stands behind that of
 * job.h, kernel_element.cuh, lib/base/philox_rounds.h, lib/vm/arith.h, curve.h, noise.h and this file.
 */
#ifndef CUDA_RULE_ELEMENT_CUH
#define CUDA_RULE_ELEMENT_CUH

/* The function of a type in these expressions. */
#define KV_OF_F32(function) function##f
#define KV_OF_F64(function) function
#define KV_OF_I64(function) function##i

/* x of one dtype as another. */
#define KV_CONVERT(to, from, x) kv_convert<to, from>::run(x)

/* Constants, from the words that come with a job, at whose beginning they lie in their own type. */
#define KV_K_F32(word) (*(const float *)(k + (word)))
#define KV_K_F64(word) (k[word])
#define KV_K_I64(word) (*(const kv_i64 *)(k + (word)))

/* ---- Random numbers of rules ---- */

KV_DEVICE float kv_normal_float(kv_u64 seed, kv_u64 draw, kv_u64 element)
{
    return noise_normal(seed, draw, element);
}

/* philox_normal of lib/base/philox.c */
KV_DEVICE double kv_normal_double(kv_u64 seed, kv_u64 draw, kv_u64 element)
{
    philox x = philox_counter(PHILOX_RULES, draw, element);
    x = philox_rounds(x, (unsigned)seed, (unsigned)(seed >> 32));
    double unit = 1.0 / 9007199254740992.0; /* 2^-53 */
    double u = (double)((((kv_u64)x.word[0] << 32 | x.word[1]) >> 11) + 1) * unit;
    double v = (double)(((kv_u64)x.word[2] << 32 | x.word[3]) >> 11) * unit;
    return sqrt(-2 * log(u)) * cos(6.28318530717958647692 * v);
}

/* A word of a rule's constants that is an integer. */
KV_DEVICE kv_i64 kv_integer(double word)
{
    kv_wide w;
    w.d = word;
    return w.i;
}

#endif
