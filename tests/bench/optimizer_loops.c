/* Whole arrays in groups of eight blocks of 4096 elements, whose sums run side by side: some
 * elements of each block are worked on, then their terms, which the L1 cache still holds, are
 * turned, so that one addition adds a term to the sum of each block.
 */
#include "optimizer_loops.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "engine/pool.h"

#if defined(__x86_64__) && defined(__AVX512F__) && defined(__AVX512DQ__) && !defined(__clang__)
#include <immintrin.h>

enum { LANES = 8, BLOCK = 4096, GROUP = LANES * BLOCK, SOME = 256, AHEAD = 256, MOST_SUMS = 3 };

#define INLINE static inline __attribute__((always_inline))

typedef __m256 lanes;

INLINE lanes all(float x)
{
    return _mm256_set1_ps(x);
}

/* *total += x[0] to x[7], of which lane l adds the elements of x[l], from the first to the last. */
INLINE void add_turned(lanes *total, const lanes x[LANES])
{
    lanes a[LANES], b[LANES];
    for (int l = 0; l < LANES; l += 2) {
        a[l] = _mm256_unpacklo_ps(x[l], x[l + 1]);
        a[l + 1] = _mm256_unpackhi_ps(x[l], x[l + 1]);
    }
    for (int l = 0; l < LANES; l += 4) {
        b[l] = _mm256_shuffle_ps(a[l], a[l + 2], 0x44);
        b[l + 1] = _mm256_shuffle_ps(a[l], a[l + 2], 0xee);
        b[l + 2] = _mm256_shuffle_ps(a[l + 1], a[l + 3], 0x44);
        b[l + 3] = _mm256_shuffle_ps(a[l + 1], a[l + 3], 0xee);
    }
    for (int l = 0; l < 4; l++)
        *total = _mm256_add_ps(*total, _mm256_permute2f128_ps(b[l], b[l + 4], 0x20));
    for (int l = 0; l < 4; l++)
        *total = _mm256_add_ps(*total, _mm256_permute2f128_ps(b[l], b[l + 4], 0x31));
}

/* ---- Passes over whole arrays ---------------------------------------------------------------- */

/* What the passes of an update share. */
typedef struct update {
    const loops_arrays *a;
    float c[4]; /* numbers that the next pass reads */
} update;

/* A pass on eight elements: the terms of its sums go to terms[0] and on. */
typedef void pass(const update *u, int64_t at, lanes *terms);

INLINE void group(const update *u, int64_t first, pass *run, int nsums)
{
    float terms[MOST_SUMS][LANES][SOME + 16]; /* lanes do not begin in the same set of the cache */
    lanes sum[MOST_SUMS] = {0};
    for (int64_t i = 0; i < BLOCK; i += SOME) {
        for (int l = 0; l < LANES; l++)
            for (int64_t j = 0; j < SOME; j += LANES) {
                lanes own[MOST_SUMS] = {0};
                run(u, first + l * BLOCK + i + j, own);
                for (int s = 0; s < nsums; s++)
                    _mm256_storeu_ps(&terms[s][l][j], own[s]);
            }
        for (int64_t j = 0; j < SOME && nsums > 0; j += LANES)
            for (int s = 0; s < nsums; s++) {
                lanes x[LANES];
                for (int l = 0; l < LANES; l++)
                    x[l] = _mm256_loadu_ps(&terms[s][l][j]);
                add_turned(&sum[s], x);
            }
    }
    for (int s = 0; s < nsums; s++)
        _mm256_storeu_ps(u->a->blocks[s] + first / BLOCK, sum[s]);
}

/* The jobs of the pool, one for each pass. */
#define PASS(name, nsums)                                                                          \
    static void name##_part(void *arg, int64_t part, int worker)                                   \
    {                                                                                              \
        (void)worker;                                                                              \
        group(arg, part *GROUP, name, nsums);                                                      \
    }

static int64_t groups(const update *u)
{
    return (u->a->n + GROUP - 1) / GROUP;
}

static float total(const update *u, int sum)
{
    float x = 0;
    for (int64_t i = 0; i < groups(u) * LANES; i++)
        x += u->a->blocks[sum][i];
    return x;
}

INLINE lanes load(const float *x, int64_t at)
{
    if (at % 16 == 0)
        _mm_prefetch((const char *)(x + at + AHEAD), _MM_HINT_T0);
    return _mm256_loadu_ps(x + at);
}

/* ---- LAMB ------------------------------------------------------------------------------------ */

static const float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-6f, rate = 0.001f, wd = 0;

/* The moments, which are stored. */
INLINE void moments(const update *u, int64_t at, lanes g, lanes *m, lanes *v)
{
    float *mean = u->a->state[0], *var = u->a->state[1];
    *m = all(beta1) * load(mean, at) + g * all(1 - beta1);
    *v = all(beta2) * load(var, at) + all(1 - beta2) * g * g;
    _mm256_storeu_ps(mean + at, *m);
    _mm256_storeu_ps(var + at, *v);
}

INLINE void lamb_direction(const update *u, int64_t at, lanes *terms)
{
    lanes w = load(u->a->w, at), g = load(u->a->g, at), m, v;
    moments(u, at, g, &m, &v);
    __m512d root = _mm512_sqrt_pd(_mm512_cvtps_pd(v / all(u->c[1]))) + (double)epsilon;
    __m512d wide = _mm512_cvtps_pd(m / all(u->c[0])) / root + _mm512_cvtps_pd(all(wd) * w);
    lanes step = _mm512_cvtpd_ps(wide);
    _mm256_storeu_ps(u->a->kept[0] + at, step);
    terms[0] = w * w;
    terms[1] = step * step;
}
PASS(lamb_direction, 2)

INLINE void lamb_step(const update *u, int64_t at, lanes *terms)
{
    (void)terms;
    lanes w = load(u->a->w, at) - all(u->c[2]) * load(u->a->kept[0], at);
    _mm256_storeu_ps(u->a->w + at, w);
}
PASS(lamb_step, 0)

static float bias(float beta, int64_t t)
{
    return 1 - (float)pow((double)beta, (double)t);
}

static float ratio(float a, float b)
{
    return a == 0 || b == 0 ? 1 : a / b;
}

static void lamb(const loops_arrays *a, int64_t t)
{
    update u = {a, {bias(beta1, t), bias(beta2, t)}};
    pool_run(groups(&u), lamb_direction_part, &u);
    u.c[2] = rate * ratio(sqrtf(total(&u, 0)), sqrtf(total(&u, 1)));
    pool_run(groups(&u), lamb_step_part, &u);
}

/* ---- LANS ------------------------------------------------------------------------------------ */

INLINE void lans_norm(const update *u, int64_t at, lanes *terms)
{
    lanes g = load(u->a->g, at);
    terms[0] = g * g;
}
PASS(lans_norm, 1)

INLINE void lans_directions(const update *u, int64_t at, lanes *terms)
{
    lanes w = load(u->a->w, at), g = load(u->a->g, at) / all(u->c[2]), m, v;
    moments(u, at, g, &m, &v);
    lanes q = _mm256_sqrt_ps(v / all(u->c[1])) + all(epsilon), decay = all(wd) * w;
    lanes long_step = m / all(u->c[0]) / q + decay, short_step = g / q + decay;
    _mm256_storeu_ps(u->a->kept[0] + at, long_step);
    _mm256_storeu_ps(u->a->kept[1] + at, short_step);
    terms[0] = w * w;
    terms[1] = long_step * long_step;
    terms[2] = short_step * short_step;
}
PASS(lans_directions, 3)

INLINE void lans_step(const update *u, int64_t at, lanes *terms)
{
    (void)terms;
    lanes step = all(u->c[0]) * load(u->a->kept[0], at) + all(u->c[1]) * load(u->a->kept[1], at);
    _mm256_storeu_ps(u->a->w + at, load(u->a->w, at) - step);
}
PASS(lans_step, 0)

static void lans(const loops_arrays *a, int64_t t)
{
    update u = {a, {bias(beta1, t), bias(beta2, t)}};
    pool_run(groups(&u), lans_norm_part, &u);
    u.c[2] = sqrtf(total(&u, 0));
    pool_run(groups(&u), lans_directions_part, &u);
    float w = sqrtf(total(&u, 0));
    u.c[0] = rate * (ratio(w, sqrtf(total(&u, 1))) * beta1);
    u.c[1] = rate * (ratio(w, sqrtf(total(&u, 2))) * (1 - beta1));
    pool_run(groups(&u), lans_step_part, &u);
}

/* ---- GroupAdaGrad ---------------------------------------------------------------------------- */

/* Eight rows: the sums of their squares, block by block, then their elements. */
static void eight_rows(const loops_arrays *a, int64_t first)
{
    const float eps = 1e-5f, lr = 0.01f;
    int64_t row = a->row, at = first * row;
    float mean[LANES], total_of[LANES] = {0};
    for (int64_t skip = 0; skip < row; skip += BLOCK) {
        int64_t n = row - skip < BLOCK ? row - skip : BLOCK, whole = n - n % LANES;
        lanes sum = all(0), x[LANES];
        for (int64_t i = 0; i < whole; i += LANES) {
            for (int l = 0; l < LANES; l++) {
                x[l] = _mm256_loadu_ps(a->g + at + l * row + skip + i);
                x[l] *= x[l];
            }
            add_turned(&sum, x);
        }
        _mm256_storeu_ps(mean, sum);
        for (int l = 0; l < LANES; l++) {
            for (int64_t i = skip + whole; i < skip + n; i++)
                mean[l] += a->g[at + l * row + i] * a->g[at + l * row + i];
            total_of[l] += mean[l];
        }
    }
    for (int l = 0; l < LANES; l++) {
        float *w = a->w + at + l * row, root;
        const float *g = a->g + at + l * row;
        a->state[0][first + l] += total_of[l] / (float)row;
        root = sqrtf(a->state[0][first + l] + eps);
        int64_t i = 0;
        for (; i + LANES <= row; i += LANES) {
            lanes step = all(lr) * _mm256_loadu_ps(g + i) / all(root);
            _mm256_storeu_ps(w + i, _mm256_loadu_ps(w + i) - step);
        }
        for (; i < row; i++)
            w[i] -= lr * g[i] / root;
    }
}

/* Rows of a part: about as many elements as a part of a whole array. */
static int64_t part_rows(const loops_arrays *a)
{
    int64_t n = GROUP / a->row / LANES * LANES;
    return n > 0 ? n : LANES;
}

static void rows_part(void *arg, int64_t part, int worker)
{
    const loops_arrays *a = arg;
    int64_t from = part * part_rows(a), to = from + part_rows(a), rows = a->n / a->row;
    (void)worker;
    for (int64_t r = from; r < to && r < rows; r += LANES) /* a last group ends in the padding */
        eight_rows(a, r);
}

static void groupadagrad(const loops_arrays *a, int64_t t)
{
    int64_t rows = a->n / a->row;
    (void)t;
    pool_run((rows + part_rows(a) - 1) / part_rows(a), rows_part, (void *)(uintptr_t)a);
}

optimizer_loop *optimizer_loop_find(const char *name)
{
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq"))
        return NULL;
    return strcmp(name, "lamb") == 0           ? lamb
           : strcmp(name, "lans") == 0         ? lans
           : strcmp(name, "groupadagrad") == 0 ? groupadagrad
                                               : NULL;
}

#else

optimizer_loop *optimizer_loop_find(const char *name)
{
    (void)name;
    return NULL;
}

#endif
