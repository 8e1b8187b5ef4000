/* Differences of checkpoints beside plain loops: every type, with and without tolerances; what is
 * not finite; pieces that are equal in part; threads. */
#include "tensors/tensor_diff.h"

#include <math.h>
#include <unistd.h>

#include "checkpoint/tensor_codec.h"
#include "tensors/tensor_stat.h"
#include "tensors/walk.h"
#include "test_tensor.h"

static const diff_options bits = {0};

static tensor_difference diff_of(tensor_type ta, const void *a, tensor_type tb, const void *b,
                                 int64_t n, diff_options o)
{
    const tensor_given given[] = {{"x", ta, n, 0, a}, {"x", tb, n, 0, b}};
    buf files[] = {tensor_file(&given[0], 1), tensor_file(&given[1], 1)};
    checkpoint *inputs[] = {tensor_open(&files[0], "a"), tensor_open(&files[1], "b")};
    tensor_difference d = {.a = 0, .b = 0};
    CHECK_OK(tensor_diffs(&d, 1, inputs[0], inputs[1], &o, NULL, NULL, &e));
    for (int i = 0; i < 2; i++) {
        checkpoint_close(inputs[i]);
        buf_release(&files[i]);
    }
    return d;
}

/* ---- By plain loops -------------------------------------------------------------------------- */

/* The bits of element i. */
static uint64_t code_at(tensor_type t, const unsigned char *data, int64_t i)
{
    int64_t width = tensor_type_run_bytes(t) * 8 / tensor_type_run(t);
    uint64_t code = 0;
    for (int64_t k = 0; k < width; k++)
        code |= (uint64_t)(data[(i * width + k) / 8] >> (i * width + k) % 8 & 1) << k;
    return code;
}

/* Codes from here to there, 0 and -0 being one. */
static uint64_t steps(tensor_type t, uint64_t x, uint64_t y)
{
    int64_t width = tensor_type_run_bytes(t) * 8 / tensor_type_run(t);
    uint64_t sign = UINT64_C(1) << (width - 1);
    if (t == TENSOR_F8_E8M0)
        return x > y ? x - y : y - x;
    uint64_t p = x & (sign - 1), q = y & (sign - 1);
    if ((x & sign) != (y & sign))
        return p + q;
    return p > q ? p - q : q - p;
}

/* apart: UINT64_MAX when the types do not agree. */
static bool passes(double a, double b, uint64_t apart, const diff_options *o)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b))
        return a == b;
    return fabs(a - b) <= o->atol + o->rtol * fabs(b) || (o->has_ulps && apart <= o->ulps);
}

static bool is_float(tensor_type t)
{
    return tensor_type_kind(t) == TENSOR_KIND_FLOAT;
}

static bool close_to(double got, double want, double most)
{
    if (got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= most * fabs(want))
        return true;
    printf("# %.17g, not %.17g\n", got, want);
    return false;
}

static void check(tensor_type ta, const void *a, tensor_type tb, const void *b, int64_t n,
                  diff_options o)
{
    tensor_difference got = diff_of(ta, a, tb, b, n, o);
    double *x = malloc((size_t)n * sizeof *x + 1), *y = malloc((size_t)n * sizeof *y + 1),
           most = -1;
    long double sums[4] = {0};
    int64_t unequal = 0, where = -1, first = -1, finite = 0;
    uint64_t ulps = 0;
    bool agree = ta == tb && is_float(ta);
    tensor_decode_f64(x, ta, a, n);
    tensor_decode_f64(y, tb, b, n);
    for (int64_t i = 0; i < n; i++) {
        uint64_t p = code_at(ta, a, i), q = code_at(tb, b, i), apart = agree ? steps(ta, p, q) : 0;
        double size = x[i] == y[i] || (isnan(x[i]) && isnan(y[i])) ? 0 : fabs(x[i] - y[i]);
        bool equal = o.tolerance ? passes(x[i], y[i], agree ? apart : UINT64_MAX, &o) : p == q;
        unequal += !equal;
        first = first < 0 && !equal ? i : first;
        if (where < 0 || size > most || (isnan(size) && !isnan(most))) {
            where = i;
            most = size;
        }
        if (!isnan(x[i]) && !isnan(y[i]) && apart > ulps)
            ulps = apart;
        if (!isfinite(x[i]) || !isfinite(y[i]))
            continue;
        finite++;
        sums[0] += ((long double)x[i] - y[i]) * ((long double)x[i] - y[i]);
        sums[1] += (long double)x[i] * x[i];
        sums[2] += (long double)y[i] * y[i];
        sums[3] += (long double)x[i] * y[i];
    }
    CHECK_INT(got.state, unequal ? DIFF_VALUES : DIFF_SAME);
    if (unequal) {
        CHECK(close_to(got.equal, 1 - (double)unequal / (double)n, 1e-12));
        CHECK_INT(got.where, most == 0 ? first : where);
        CHECK_INT(got.has_ulps, agree && finite);
        if (got.has_ulps)
            CHECK(got.ulps == ulps);
        CHECK(close_to(got.is_integer ? (double)got.max_int : got.max_abs, most, 0));
        CHECK(
            close_to(got.rms, finite ? (double)sqrtl(sums[0] / (long double)finite) : NAN, 1e-12));
        CHECK(close_to(got.cosine, (double)(sums[3] / sqrtl(sums[1] * sums[2])), 1e-9) ||
              fabs(got.cosine) < 1e-9);
    }
    free(x);
    free(y);
}

/* ---- Every type ------------------------------------------------------------------------------ */

/* Bits of any kind; BOOL has 0 and 1; float64 and large integers keep to what loops add exactly. */
static unsigned char *random_data(tensor_type type, int64_t n, uint64_t *state)
{
    int64_t bytes = tensor_type_bytes(type, n);
    unsigned char *data = malloc((size_t)bytes + 1);
    for (int64_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(next_random(state) & (type == TENSOR_BOOL ? 1 : 255));
    for (int64_t i = 0; i < n && tensor_type_run_bytes(type) == 8; i++) {
        uint64_t r = next_random(state);
        if (type == TENSOR_F64)
            ((double *)data)[i] = r % 7 == 0 ? NAN : r % 7 == 1 ? INFINITY : (double)(int64_t)r;
        else
            ((uint64_t *)data)[i] = r >> 20;
    }
    return data;
}

/* A copy with other bits in some of its bytes. */
static unsigned char *changed(tensor_type type, const unsigned char *a, int64_t n, uint64_t one_in,
                              uint64_t *state)
{
    int64_t bytes = tensor_type_bytes(type, n);
    unsigned char *b = malloc((size_t)bytes + 1);
    memcpy(b, a, (size_t)bytes);
    for (int64_t i = 0; i < bytes; i++)
        if (next_random(state) % one_in == 0)
            b[i] ^= tensor_type_run_bytes(type) == 8 && i % 8 > 5 ? 0 : 1;
    return b;
}

static const diff_options tolerances[] = {
    {0},
    {.tolerance = true},
    {.tolerance = true, .rtol = 0.01},
    {.tolerance = true, .atol = 0.5},
    {.tolerance = true, .rtol = 1e-3, .atol = 1e-6, .has_ulps = true, .ulps = 1},
    {.tolerance = true, .has_ulps = true, .ulps = 3},
    {.tolerance = true, .has_ulps = true},
};
#define NTOLERANCES ((int)(sizeof tolerances / sizeof *tolerances))

TEST(tensor_diff_every_type)
{
    static const int64_t lengths[] = {4, 20, 1024, 1028, 5000};
    uint64_t state = 1;
    for (int t = 0; t < TENSOR_NSAFE; t++) {
        if (t == TENSOR_C64)
            continue;
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            OWN(test_free) unsigned char *a = random_data((tensor_type)t, lengths[i], &state);
            OWN(test_free)
            unsigned char *b = changed((tensor_type)t, a, lengths[i], 1 + i % 3 * 30, &state);
            for (int k = 0; k < NTOLERANCES; k++)
                check((tensor_type)t, a, (tensor_type)t, b, lengths[i], tolerances[k]);
        }
    }
}

/* Finite numbers only, which go through other loops. */
TEST(tensor_diff_finite)
{
    static const tensor_type types[] = {TENSOR_F64, TENSOR_F32, TENSOR_BF16, TENSOR_F16};
    uint64_t state = 2;
    int64_t n = 3000;
    for (int t = 0; t < 4; t++) {
        OWN(test_free) double *x = malloc(sizeof *x * (size_t)n);
        OWN(test_free) unsigned char *a = malloc((size_t)n * 8);
        for (int64_t i = 0; i < n; i++)
            x[i] = ldexp((double)next_random(&state), -64) - 0.5;
        tensor_convert(a, types[t], x, TENSOR_F64, n);
        for (uint64_t one_in = 1; one_in < 10000; one_in *= 20) {
            OWN(test_free) unsigned char *b = changed(types[t], a, n, one_in, &state);
            for (int k = 0; k < NTOLERANCES; k++)
                check(types[t], a, types[t], b, n, tolerances[k]);
        }
    }
}

/* Float64 whose squares float64 does not hold: of one side, of both, or only of differences. */
TEST(tensor_diff_scales)
{
    static const double sizes[] = {1e308, 1e200, 1e154, 1, 1e-154, 1e-200, 1e-305};
    uint64_t state = 9;
    enum { LONGEST = 70000 };
    OWN(test_free) double *a = calloc(LONGEST, sizeof *a), *b = calloc(LONGEST, sizeof *b);
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 7; k++) {
            int64_t n = (i + k) % 7 ? 3000 : LONGEST;
            for (int64_t j = 0; j < n; j++) {
                a[j] = sizes[i] * (0.25 + ldexp((double)next_random(&state), -65));
                b[j] = sizes[k] * (0.25 + ldexp((double)next_random(&state), -65));
            }
            check(TENSOR_F64, a, TENSOR_F64, b, n, bits);
            b[n / 2] = NAN;
            check(TENSOR_F64, a, TENSOR_F64, b, n, bits);
            memcpy(b, a, (size_t)n * sizeof *b);
            b[n - 1] = a[n - 1] + fmin(1e-200, sizes[i]);
            b[3] *= 1 + 1e-12;
            check(TENSOR_F64, a, TENSOR_F64, b, n, bits);
        }
    float c[] = {1, 2, 1e-30f};
    const double d[] = {1e200, -3e200, 0}, tiny[] = {1e-200, 5e-324, 0};
    check(TENSOR_F64, d, TENSOR_F32, c, 3, tolerances[1]);
    check(TENSOR_F32, c, TENSOR_F64, tiny, 3, tolerances[1]);
}

/* Zeros of both signs differ in their bits and by nothing: the first of them counts. */
TEST(tensor_diff_signs_of_zero)
{
    static const struct {
        tensor_type type;
        int64_t first; /* the byte that has the sign of element 701, and that sign */
        unsigned char sign;
    } cases[] = {{TENSOR_F64, 701 * 8 + 7, 128},       {TENSOR_F32, 701 * 4 + 3, 128},
                 {TENSOR_BF16, 701 * 2 + 1, 128},      {TENSOR_F8_E5M2, 701, 128},
                 {TENSOR_F6_E2M3, 701 * 6 / 8 + 1, 8}, {TENSOR_F4, 701 / 2, 128},
                 {TENSOR_C64, 701 * 8 + 3, 128}};
    static const unsigned char a[1024 * 8];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char b[sizeof a] = {0};
        b[cases[i].first] = cases[i].sign;
        b[cases[i].first + 48] = cases[i].sign;
        tensor_difference d = diff_of(cases[i].type, a, cases[i].type, b, 1024, bits);
        CHECK_INT(d.state, DIFF_VALUES);
        CHECK(d.rms == 0 && d.rel == 0 && d.max_abs == 0 && d.equal == 1 - 2.0 / 1024);
        CHECK_INT(d.where, 701);
    }
}

/* Few elements differ, so that words of several blocks are decoded together: some by the same
 * amount, of which the first counts; beside blocks of nan, of zeros and of numbers whose squares
 * vanish or overflow in float32. */
TEST(tensor_diff_sparse)
{
    static const tensor_type types[] = {TENSOR_F64,     TENSOR_F32, TENSOR_BF16, TENSOR_F16,
                                        TENSOR_F8_E4M3, TENSOR_I16, TENSOR_I64,  TENSOR_U8};
    uint64_t state = 7;
    int64_t n = 21 * 1024 + 21, from = 2 * 1024;
    OWN(test_free) double *x = malloc(sizeof *x * (size_t)n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)(next_random(&state) % 16) + 16;
    for (int t = 0; t < 8; t++) {
        bool floats = is_float(types[t]) && types[t] != TENSOR_F8_E4M3;
        bool large = floats && types[t] != TENSOR_F16;
        for (int64_t i = 0; i < 1500; i++) {
            x[from + i] = floats && i == 100 ? NAN : 17;
            x[from + 8000 + i] = 0;
            x[from + 12000 + i] = large ? 1e-30 : 1;
            x[from + 16000 + i] = large ? 1e30 : 1;
        }
        OWN(test_free) unsigned char *a = malloc((size_t)n * 8);
        CHECK_INT(tensor_convert(a, types[t], x, TENSOR_F64, n), -1);
        for (uint64_t one_in = 100; one_in < 100000; one_in *= 200) {
            OWN(test_free) unsigned char *b = changed(types[t], a, n, one_in, &state);
            for (int k = 0; k < NTOLERANCES; k++)
                check(types[t], a, types[t], b, n, tolerances[k]);
        }
    }
}

/* Two types: without a tolerance that is the difference; with one numbers count. */
TEST(tensor_diff_two_types)
{
    static const tensor_type types[] = {TENSOR_F32, TENSOR_BF16, TENSOR_F64,     TENSOR_I32,
                                        TENSOR_U8,  TENSOR_I64,  TENSOR_F8_E4M3, TENSOR_BOOL};
    uint64_t state = 3;
    int64_t n = 2050;
    OWN(test_free) double *x = malloc(sizeof *x * (size_t)n);
    for (int p = 0; p < 8; p++) {
        for (int q = 0; q < 8; q++) {
            OWN(test_free) unsigned char *a = malloc((size_t)n * 8), *b = malloc((size_t)n * 8);
            for (int64_t i = 0; i < n; i++)
                x[i] = (double)(next_random(&state) % 2);
            CHECK_INT(tensor_convert(a, types[p], x, TENSOR_F64, n), -1);
            x[17] = 1 - x[17];
            CHECK_INT(tensor_convert(b, types[q], x, TENSOR_F64, n), -1);
            tensor_difference d = diff_of(types[p], a, types[q], b, n, bits);
            CHECK_INT(d.state, p == q ? DIFF_VALUES : DIFF_DTYPE);
            for (int k = 1; k < NTOLERANCES; k++)
                check(types[p], a, types[q], b, n, tolerances[k]);
        }
    }
}

TEST(tensor_diff_special)
{
    const float a[] = {1, NAN, INFINITY, -0.0f, 2}, b[] = {1, NAN, INFINITY, 0, 2};
    tensor_difference d = diff_of(TENSOR_F32, a, TENSOR_F32, b, 5, bits);
    CHECK_INT(d.state, DIFF_VALUES);
    CHECK(d.equal == 0.8 && d.max_abs == 0 && d.ulps == 0 && d.rms == 0 && d.cosine == 1);
    CHECK_INT(d.where, 3);
    CHECK_INT(diff_of(TENSOR_F32, a, TENSOR_F32, b, 5, tolerances[1]).state, DIFF_SAME);
    CHECK_INT(diff_of(TENSOR_F32, a, TENSOR_F32, b, 5, tolerances[6]).state, DIFF_SAME);
    /* An infinity is 1 ulp from the largest number, and yet equals itself only. */
    const float most[] = {3.40282347e38f, INFINITY}, far[] = {INFINITY, -INFINITY};
    const diff_options wide = {
        .tolerance = true, .rtol = 10, .atol = INFINITY, .has_ulps = true, .ulps = UINT64_MAX};
    d = diff_of(TENSOR_F32, most, TENSOR_F32, far, 2, wide);
    CHECK(d.state == DIFF_VALUES && d.equal == 0 && isinf(d.max_abs) && d.where == 0);
    CHECK(isinf(d.rms) && isinf(d.rel) && isnan(d.cosine));
    /* nan beside a number is the largest difference. */
    const float n[] = {NAN, 5, INFINITY}, m[] = {1, 1e30f, 0};
    d = diff_of(TENSOR_F32, m, TENSOR_F32, n, 3, wide);
    CHECK(d.state == DIFF_VALUES && isnan(d.max_abs) && d.where == 0);
    CHECK(isnan(d.rel) && d.rms > 0 && d.cosine > 0); /* the second pair is finite */
    d = diff_of(TENSOR_F32, a, TENSOR_F32, n, 1, bits);
    CHECK(isnan(d.rel) && isnan(d.rms) && isnan(d.cosine));
    /* Another nan has other bits. */
    const uint32_t quiet[] = {0x7fc00000, 0x3f800000}, other[] = {0x7fc00001, 0x3f800000};
    d = diff_of(TENSOR_F32, quiet, TENSOR_F32, other, 2, bits);
    CHECK(d.state == DIFF_VALUES && d.equal == 0.5 && d.max_abs == 0 && d.where == 0);
    CHECK_INT(diff_of(TENSOR_F32, quiet, TENSOR_F32, other, 2, tolerances[1]).state, DIFF_SAME);
}

/* Integers do not go through float64, also where one side is a float. */
TEST(tensor_diff_integers)
{
    const int64_t a[] = {INT64_MIN, 7, INT64_C(1) << 60},
                  b[] = {INT64_MAX, 7, (INT64_C(1) << 60) + 1};
    const uint64_t u[] = {UINT64_MAX, 7, 0};
    tensor_difference d = diff_of(TENSOR_I64, a, TENSOR_I64, b, 3, bits);
    CHECK(d.is_integer && d.max_int == UINT64_MAX && d.where == 0 && !d.has_ulps);
    d = diff_of(TENSOR_I64, a + 1, TENSOR_I64, b + 1, 2, bits);
    CHECK(d.max_int == 1 && d.where == 1 && d.equal == 0.5);
    const diff_options one = {.tolerance = true, .atol = 1};
    const diff_options less = {.tolerance = true, .atol = 0.75};
    CHECK_INT(diff_of(TENSOR_I64, a + 1, TENSOR_I64, b + 1, 2, one).state, DIFF_SAME);
    d = diff_of(TENSOR_I64, a + 1, TENSOR_I64, b + 1, 2, less);
    CHECK(d.state == DIFF_VALUES && d.max_int == 1);
    const double power[] = {7, 0x1p60};
    CHECK_INT(diff_of(TENSOR_I64, a + 1, TENSOR_F64, power, 2, tolerances[1]).state, DIFF_SAME);
    CHECK_INT(diff_of(TENSOR_I64, b + 1, TENSOR_F64, power, 2, one).state, DIFF_SAME);
    CHECK_INT(diff_of(TENSOR_I64, b + 1, TENSOR_F64, power, 2, less).state, DIFF_VALUES);
    CHECK_INT(diff_of(TENSOR_F64, power, TENSOR_I64, b + 1, 2, less).state, DIFF_VALUES);
    d = diff_of(TENSOR_U64, u, TENSOR_I64, b, 3, tolerances[1]);
    CHECK(d.state == DIFF_VALUES && d.max_int == UINT64_MAX - INT64_MAX && d.where == 0);
    const uint8_t x[] = {1, 2}, y[] = {1, 3};
    CHECK_INT(diff_of(TENSOR_U8, x, TENSOR_U8, y, 2, one).state, DIFF_SAME);
    d = diff_of(TENSOR_U8, x, TENSOR_U8, y, 2, tolerances[3]);
    CHECK(d.state == DIFF_VALUES && d.is_integer && d.max_int == 1 && d.where == 1);
}

/* Elements of C64 differ when a part does; where counts elements. */
TEST(tensor_diff_complex)
{
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 2, 3, 4.5f, 5, 6.25f};
    tensor_difference d = diff_of(TENSOR_C64, a, TENSOR_C64, b, 3, bits);
    CHECK(d.state == DIFF_VALUES && d.max_abs == 0.5 && d.where == 1 && d.has_numbers);
    CHECK(close_to(d.equal, 1.0 / 3, 1e-15));
    d = diff_of(TENSOR_C64, a, TENSOR_C64, b, 3, (diff_options){.tolerance = true, .atol = 0.25});
    CHECK(close_to(d.equal, 2.0 / 3, 1e-15));
    CHECK_INT(
        diff_of(TENSOR_C64, a, TENSOR_C64, b, 3, (diff_options){.tolerance = true, .atol = 0.5})
            .state,
        DIFF_SAME);
    CHECK_INT(diff_of(TENSOR_C64, a, TENSOR_F64, b, 3, tolerances[1]).state, DIFF_DTYPE);
}

/* The parts of C64 are the numbers of F32. */
TEST(tensor_diff_complex_sparse)
{
    uint64_t state = 8;
    int64_t n = 20 * 1024;
    OWN(test_free) float *a = malloc(sizeof *a * 2 * (size_t)n);
    for (int64_t i = 0; i < 2 * n; i++)
        a[i] = (float)ldexp((double)next_random(&state), -64) - 0.5f;
    OWN(test_free) float *b = (float *)changed(TENSOR_F32, (unsigned char *)a, 2 * n, 1000, &state);
    tensor_difference c = diff_of(TENSOR_C64, a, TENSOR_C64, b, n, bits);
    tensor_difference f = diff_of(TENSOR_F32, a, TENSOR_F32, b, 2 * n, bits);
    CHECK(c.state == DIFF_VALUES && c.where == f.where / 2 && c.ulps == f.ulps);
    CHECK(c.max_abs == f.max_abs && close_to(c.rms, f.rms, 1e-12));
    CHECK(close_to(c.cosine, f.cosine, 1e-12));
    CHECK(c.equal < f.equal && c.equal > 0.9);
}

/* ---- Pieces and threads ---------------------------------------------------------------------- */

/* Over several pieces: all of them differ a little, or one alone does, in one element. */
TEST(tensor_diff_pieces)
{
    int64_t n = 3 * WALK_PIECE + 100;
    OWN(test_free) float *a = malloc(sizeof *a * (size_t)n), *b = malloc(sizeof *b * (size_t)n);
    OWN(test_free) float *c = malloc(sizeof *c * (size_t)n);
    uint64_t state = 4;
    for (int64_t i = 0; i < n; i++) {
        a[i] = c[i] = (float)ldexp((double)next_random(&state), -64) - 0.5f;
        b[i] = a[i] + (float)ldexp((double)next_random(&state), -80);
    }
    c[2 * WALK_PIECE + 77] += 3;
    check(TENSOR_F32, a, TENSOR_F32, c, n, bits);
    check(TENSOR_F32, a, TENSOR_F32, c, n, tolerances[4]);
    check(TENSOR_F32, a, TENSOR_F32, b, n, tolerances[4]);
}

static tensor_difference *diff_with(const char *threads, const buf files[2])
{
    tensor_difference *out = test_shared(2 * sizeof *out);
    out[1].a = out[1].b = 1;
    IN_CHILD(threads)
        CHECK_OK(tensor_diffs(out, 2, tensor_open(&files[0], "a"), tensor_open(&files[1], "b"),
                              &bits, NULL, NULL, &e));
    return out;
}

TEST(tensor_diff_threads_change_no_bit)
{
    static const char *const counts[] = {"2", "3", "4", "8"};
    int64_t n = 5 * WALK_PIECE + 100;
    OWN(test_free) float *a = malloc(sizeof *a * (size_t)n), *b = malloc(sizeof *b * (size_t)n);
    uint64_t state = 4;
    for (int64_t i = 0; i < n; i++) {
        a[i] = (float)ldexp((double)next_random(&state), -64) - 0.5f;
        b[i] = i < 3 * WALK_PIECE ? a[i] : a[i] * 1.01f;
    }
    const tensor_given x[] = {{"x", TENSOR_F32, n, 0, a}, {"y", TENSOR_BF16, n, 0, a}};
    const tensor_given y[] = {{"x", TENSOR_F32, n, 0, b}, {"y", TENSOR_BF16, n, 0, b}};
    buf files[] = {tensor_file(x, 2), tensor_file(y, 2)};
    const tensor_difference *one = diff_with("1", files);
    CHECK(one[0].state == DIFF_VALUES && one[0].cosine > 0.99);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const tensor_difference *more = diff_with(counts[i], files);
        for (int k = 0; k < 2; k++) {
            CHECK(memcmp(&one[k].rms, &more[k].rms, sizeof(double)) == 0);
            CHECK(memcmp(&one[k].cosine, &more[k].cosine, sizeof(double)) == 0);
            CHECK(one[k].equal == more[k].equal && one[k].where == more[k].where);
            CHECK(one[k].max_abs == more[k].max_abs || isnan(one[k].max_abs));
            CHECK(one[k].ulps == more[k].ulps);
        }
    }
    buf_release(&files[0]);
    buf_release(&files[1]);
}

/* Data may begin at any byte of a file: the header of another tool need not be aligned. */
TEST(tensor_diff_any_address)
{
    static const tensor_type types[] = {TENSOR_F32, TENSOR_F64, TENSOR_BF16, TENSOR_U64, TENSOR_F4};
    uint64_t state = 6;
    int64_t n = 1030;
    for (int t = 0; t < 5; t++) {
        int64_t bytes = tensor_type_bytes(types[t], n);
        OWN(test_free) unsigned char *a = random_data(types[t], n, &state);
        tensor_stat want, got;
        for (size_t shift = 0; shift < 8; shift++) {
            char header[200];
            snprintf(header, sizeof header,
                     "{\"x\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,%d]}}%.*s",
                     tensor_type_name(types[t]), (int)n, (int)bytes, (int)shift, "        ");
            uint64_t length = strlen(header);
            own_buf file = {0};
            buf_put(&file, (char *)&length, 8);
            buf_add(&file, header);
            buf_put(&file, (char *)a, (size_t)bytes);
            own_checkpoint *c = tensor_open(&file, "x"), *d = tensor_open(&file, "y");
            tensor_difference pair = {.a = 0, .b = 0};
            CHECK_OK(tensor_stats(&got, c, &(int64_t){0}, 1, NULL, NULL, &e));
            CHECK_OK(tensor_diffs(&pair, 1, c, d, &bits, NULL, NULL, &e));
            CHECK_INT(pair.state, DIFF_SAME);
            want = shift ? want : got;
            CHECK(memcmp(&got.mean, &want.mean, sizeof got.mean) == 0);
            CHECK(memcmp(&got.std, &want.std, sizeof got.std) == 0);
            checkpoint_close(d);
            ((char *)file.data)[8 + length] ^= 1;
            d = tensor_open(&file, "y");
            const tensor_given aligned = {"x", types[t], n, 0, a};
            own_buf other = tensor_file(&aligned, 1);
            own_checkpoint *plain = tensor_open(&other, "z");
            CHECK_OK(tensor_diffs(&pair, 1, plain, d, &bits, NULL, NULL, &e));
            CHECK(pair.state == DIFF_VALUES && close_to(pair.equal, 1 - 1.0 / (double)n, 1e-12));
        }
    }
}

TEST(tensor_diff_brief)
{
    const float a[] = {1, 2}, b[] = {1, 3};
    const diff_options brief = {.brief = true},
                       loose = {.brief = true, .tolerance = true, .atol = 1};
    CHECK_INT(diff_of(TENSOR_F32, a, TENSOR_F32, b, 2, brief).state, DIFF_VALUES);
    CHECK_INT(diff_of(TENSOR_F32, a, TENSOR_F32, a, 2, brief).state, DIFF_SAME);
    CHECK_INT(diff_of(TENSOR_F32, a, TENSOR_F32, b, 2, loose).state, DIFF_SAME);
    CHECK_INT(diff_of(TENSOR_F32, a, TENSOR_F32, b, 0, brief).state, DIFF_SAME);
}

/* Each pair of tensors has its own answer: that of one must not stand for that of another. */
TEST(tensor_diff_brief_of_several)
{
    enum { N = 3 };
    static const char *const names[N] = {"x", "y", "z"};
    const float a[] = {1, 2}, b[] = {1, 3};
    const double d[] = {1, 2};
    const diff_options options[] = {{.brief = true},
                                    {.brief = true, .tolerance = true, .atol = 0.5},
                                    {.tolerance = true, .atol = 0.5},
                                    {0}};
    for (int differ = 0; differ < 1 << N; differ++) {
        for (int o = 0; o < 8; o++) {
            tensor_given given[2][N];
            tensor_difference pairs[N] = {{0}};
            for (int i = 0; i < N; i++) {
                bool wide = o >= 4 && options[o % 4].tolerance && i == 1; /* a loop of its own */
                given[0][i] = (tensor_given){names[i], wide ? TENSOR_F64 : TENSOR_F32, 2, 0,
                                             wide ? (const void *)d : a};
                given[1][i] = (tensor_given){names[i], TENSOR_F32, 2, 0, differ >> i & 1 ? b : a};
                pairs[i] = (tensor_difference){.a = i, .b = i};
            }
            buf files[] = {tensor_file(given[0], N), tensor_file(given[1], N)};
            checkpoint *inputs[] = {tensor_open(&files[0], "a"), tensor_open(&files[1], "b")};
            CHECK_OK(tensor_diffs(pairs, N, inputs[0], inputs[1], &options[o % 4], NULL, NULL, &e));
            for (int i = 0; i < N; i++)
                CHECK_INT(pairs[i].state, differ >> i & 1 ? DIFF_VALUES : DIFF_SAME);
            for (int i = 0; i < 2; i++) {
                checkpoint_close(inputs[i]);
                buf_release(&files[i]);
            }
        }
    }
}

TEST(tensor_diff_order)
{
    const tensor_difference only = {.state = DIFF_ONLY_B}, shape = {.state = DIFF_SHAPE},
                            nan = {.state = DIFF_VALUES, .max_abs = NAN},
                            zero = {.state = DIFF_VALUES, .size = INFINITY},
                            small = {.state = DIFF_VALUES, .size = 1},
                            two = {.state = DIFF_VALUES, .size = 2};
    CHECK_INT(tensor_diff_order(&only, &shape), 0);
    CHECK_INT(tensor_diff_order(&shape, &nan), -1);
    CHECK_INT(tensor_diff_order(&small, &nan), 1);
    CHECK_INT(tensor_diff_order(&nan, &zero), -1);
    CHECK_INT(tensor_diff_order(&zero, &two), -1);
    CHECK_INT(tensor_diff_order(&two, &small), -1);
    CHECK_INT(tensor_diff_order(&small, &small), 0);
}

TEST(tensor_diff_no_memory)
{
    int64_t count = 2 * WALK_PIECE;
    OWN(test_free)
    float *x = calloc((size_t)count, sizeof *x), *y = calloc((size_t)count, sizeof *y);
    y[0] = 1;
    const tensor_given given[] = {{"x", TENSOR_F32, count, 0, x}, {"x", TENSOR_F32, count, 0, y}};
    buf files[] = {tensor_file(&given[0], 1), tensor_file(&given[1], 1)};
    own_checkpoint *a = tensor_open(&files[0], "a"), *b = tensor_open(&files[1], "b");
    tensor_difference d = {.a = 0, .b = 0};
    CHECK(FAILURES(tensor_diffs(&d, 1, a, b, &bits, NULL, NULL, &e)) > 6);
    buf_release(&files[0]);
    buf_release(&files[1]);
}
