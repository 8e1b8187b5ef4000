/* Optimizers by hand: their numbers, and the loops for both widths. */
#include "hand.h"

#include <math.h>
#include <string.h>

#include "engine/pool.h"

enum { PART = 1 << 16 }; /* elements, which are 256 KB */

/* The parameters of Adam, Nadam and FTML that are alike. */
#define BETA2   0.999
#define EPSILON 1e-8

static void adam_numbers(float *k, int64_t t)
{
    const double beta1 = 0.9;
    double rate = 0.001 * (sqrt(1 - pow(BETA2, (double)t)) / (1 - pow(beta1, (double)t)));
    const float numbers[] = {
        0,           (float)beta1,  1 - (float)beta1, (float)BETA2, 1 - (float)BETA2,
        (float)rate, (float)EPSILON};
    memcpy(k, numbers, sizeof numbers);
}

static void nadam_numbers(float *k, int64_t t)
{
    static double schedule = 1;
    const double beta1 = 0.9, decay = 0.004;
    double mu = beta1 * (1 - 0.5 * pow(0.96, (double)t * decay));
    double next = beta1 * (1 - 0.5 * pow(0.96, (double)(t + 1) * decay));
    schedule = (t == 1 ? 1 : schedule) * mu;
    const float numbers[] = {0,
                             (float)beta1,
                             (float)(1 - beta1),
                             (float)BETA2,
                             (float)(1 - BETA2),
                             0.001f,
                             (float)EPSILON,
                             (float)(1 - schedule),
                             (float)(1 - schedule * next),
                             (float)(1 - pow(BETA2, (double)t)),
                             (float)(1 - mu),
                             (float)next};
    memcpy(k, numbers, sizeof numbers);
}

static void ftrl_numbers(float *k, int64_t t)
{
    const float numbers[] = {0, 0.1f, 0.01f, 1};
    (void)t;
    memcpy(k, numbers, sizeof numbers);
}

/* Operators on a line with arrays round to float32, and so does the power. */
static void ftml_numbers(float *k, int64_t t)
{
    const float beta1 = 0.6f, beta2 = (float)BETA2, lr = 0.01f;
    float power1 = (float)pow(beta1, (double)t), power2 = (float)pow(beta2, (double)t);
    const float numbers[] = {0,         beta1,      1 - beta1,      beta2,
                             1 - beta2, 1 - power2, (float)EPSILON, (1 - power1) / lr};
    memcpy(k, numbers, sizeof numbers);
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define NAME(x)          x##_avx2
#define TARGET           __attribute__((target("avx2")))
#define V                __m256
#define LANES            8
#define SET              _mm256_set1_ps
#define LOAD             _mm256_loadu_ps
#define STORE            _mm256_storeu_ps
#define ADD              _mm256_add_ps
#define SUB              _mm256_sub_ps
#define MUL              _mm256_mul_ps
#define DIV              _mm256_div_ps
#define ROOT             _mm256_sqrt_ps
#define MAGNITUDE(x)     _mm256_andnot_ps(SET(-0.0f), x)
#define NEGATE(x)        _mm256_xor_ps(SET(-0.0f), x)
#define ABOVE(a, b, one) _mm256_and_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ), one)
#define SIGN(x, one)     SUB(ABOVE(x, SET(0), one), ABOVE(SET(0), x, one))
#include "hand_loops.h"

#define NAME(x)          x##_avx512
#define TARGET           __attribute__((target("avx512f,avx512dq")))
#define V                __m512
#define LANES            16
#define SET              _mm512_set1_ps
#define LOAD             _mm512_loadu_ps
#define STORE            _mm512_storeu_ps
#define ADD              _mm512_add_ps
#define SUB              _mm512_sub_ps
#define MUL              _mm512_mul_ps
#define DIV              _mm512_div_ps
#define ROOT             _mm512_sqrt_ps
#define MAGNITUDE        _mm512_abs_ps
#define NEGATE(x)        _mm512_xor_ps(SET(-0.0f), x)
#define ABOVE(a, b, one) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), one)
#define SIGN(x, one)     SUB(ABOVE(x, SET(0), one), ABOVE(SET(0), x, one))
#include "hand_loops.h"

#define LOOPS(x) x##_avx2, x##_avx512

static const hand hands[] = {
    {"adam", 2, adam_numbers, LOOPS(adam)},
    {"nadam", 2, nadam_numbers, LOOPS(nadam)},
    {"ftrl", 2, ftrl_numbers, LOOPS(ftrl)},
    {"ftml", 3, ftml_numbers, LOOPS(ftml)},
    {0},
};

static hand_loop *loop_of(const hand *h)
{
    return __builtin_cpu_supports("avx512dq") ? h->avx512
           : __builtin_cpu_supports("avx2")   ? h->avx2
                                              : NULL;
}
#else
static const hand hands[] = {{0}};

static hand_loop *loop_of(const hand *h)
{
    return h->avx2;
}
#endif

const hand *hand_find(const char *name)
{
    for (const hand *h = hands; h->name; h++)
        if (strcmp(h->name, name) == 0)
            return loop_of(h) ? h : NULL;
    return NULL;
}

typedef struct step {
    const hand_arrays *a;
    hand_loop *loop;
    int64_t n;
    float k[HAND_NUMBERS];
} step;

static void run_part(void *arg, int64_t part, int worker)
{
    const step *s = arg;
    int64_t from = part * PART, n = s->n - from < PART ? s->n - from : PART;
    hand_arrays a = {.w = s->a->w + from, .g = s->a->g + from};
    (void)worker;
    for (int i = 0; i < HAND_STATES; i++)
        a.state[i] = s->a->state[i] + from;
    s->loop(&a, s->k, n / 16 * 16);
}

void hand_run(const hand *h, const hand_arrays *a, int64_t n, int64_t t)
{
    step s = {.a = a, .loop = loop_of(h), .n = n};
    h->numbers(s.k, t);
    pool_run((n + PART - 1) / PART, run_part, &s);
}
