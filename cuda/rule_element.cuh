/* The operations of rules on elements. The text of a rule stands behind that of job.h,
 * kernel_element.cuh, lib/base/philox_rounds.h, lib/vm/arith.h, curve.h, noise.h and this file. Each
 * function gives the bits of its counterpart in lib/vm/kernel_loops.h.
 */
#ifndef CUDA_RULE_ELEMENT_CUH
#define CUDA_RULE_ELEMENT_CUH

/* ---- Operations, by the types of their operands ---- */

KV_DEVICE float kv_floordiv(float a, float b) { return arith_ffloordivf(a, b); }
KV_DEVICE double kv_floordiv(double a, double b) { return arith_ffloordiv(a, b); }
KV_DEVICE kv_i64 kv_floordiv(kv_i64 a, kv_i64 b) { return arith_floordiv(a, b); }
KV_DEVICE float kv_mod(float a, float b) { return arith_fmodf(a, b); }
KV_DEVICE double kv_mod(double a, double b) { return arith_fmod(a, b); }
KV_DEVICE kv_i64 kv_mod(kv_i64 a, kv_i64 b) { return arith_mod(a, b); }
KV_DEVICE kv_i64 kv_pow(kv_i64 a, kv_i64 b) { return arith_pow(a, b); }
KV_DEVICE float kv_pow(float a, float b) { return (float)pow((double)a, (double)b); }
KV_DEVICE double kv_pow(double a, double b) { return pow(a, b); }
KV_DEVICE float kv_exp(float a) { return (float)exp((double)a); }
KV_DEVICE double kv_exp(double a) { return exp(a); }
KV_DEVICE float kv_log(float a) { return (float)log((double)a); }
KV_DEVICE double kv_log(double a) { return log(a); }
KV_DEVICE float kv_tanh(float a) { return curve_tanhf(a); }
KV_DEVICE double kv_tanh(double a) { return curve_tanh(a); }
KV_DEVICE float kv_sin(float a) { return curve_any_sinf(a); }
KV_DEVICE double kv_sin(double a) { return curve_any_sin(a); }
KV_DEVICE float kv_cos(float a) { return curve_any_cosf(a); }
KV_DEVICE double kv_cos(double a) { return curve_any_cos(a); }
KV_DEVICE float kv_asin(float a) { return curve_asinf(a); }
KV_DEVICE double kv_asin(double a) { return curve_asin(a); }
KV_DEVICE float kv_acos(float a) { return curve_acosf(a); }
KV_DEVICE double kv_acos(double a) { return curve_acos(a); }
KV_DEVICE float kv_sqrt(float a) { return sqrtf(a); }
KV_DEVICE double kv_sqrt(double a) { return sqrt(a); }
KV_DEVICE float kv_floor(float a) { return floorf(a); }
KV_DEVICE double kv_floor(double a) { return floor(a); }
KV_DEVICE float kv_ceil(float a) { return ceilf(a); }
KV_DEVICE double kv_ceil(double a) { return ceil(a); }
KV_DEVICE float kv_round(float a) { return rintf(a); }
KV_DEVICE double kv_round(double a) { return rint(a); }
KV_DEVICE float kv_abs(float a) { return fabsf(a); }
KV_DEVICE double kv_abs(double a) { return fabs(a); }
KV_DEVICE kv_i64 kv_abs(kv_i64 a) { return a < 0 ? arith_sub(0, a) : a; }
KV_DEVICE float kv_neg(float a) { return -a; }
KV_DEVICE double kv_neg(double a) { return -a; }
KV_DEVICE kv_i64 kv_neg(kv_i64 a) { return arith_sub(0, a); }

KV_DEVICE float kv_add(float a, float b) { return a + b; }
KV_DEVICE double kv_add(double a, double b) { return a + b; }
KV_DEVICE kv_i64 kv_add(kv_i64 a, kv_i64 b) { return arith_add(a, b); }
KV_DEVICE float kv_sub(float a, float b) { return a - b; }
KV_DEVICE double kv_sub(double a, double b) { return a - b; }
KV_DEVICE kv_i64 kv_sub(kv_i64 a, kv_i64 b) { return arith_sub(a, b); }
KV_DEVICE float kv_mul(float a, float b) { return a * b; }
KV_DEVICE double kv_mul(double a, double b) { return a * b; }
KV_DEVICE kv_i64 kv_mul(kv_i64 a, kv_i64 b) { return arith_mul(a, b); }

template <class T> KV_DEVICE T kv_sign(T a) { return (T)((a > 0) - (a < 0)); }
template <class T> KV_DEVICE T kv_min(T a, T b) { return (a < b) | (a != a) ? a : b; }
template <class T> KV_DEVICE T kv_max(T a, T b) { return (a > b) | (a != a) ? a : b; }
template <class T> KV_DEVICE T kv_clip(T a, T b, T c) { return a > c ? c : a < b ? b : a; }

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
