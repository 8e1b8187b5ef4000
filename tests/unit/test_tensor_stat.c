/* Statistics of tensors beside plain loops: every type, what is not finite, sizes around pieces and
 * blocks, numbers whose squares overflow. */
#include "tensors/tensor_stat.h"

#include <math.h>
#include <unistd.h>

#include "checkpoint/tensor_codec.h"
#include "tensors/walk.h"
#include "test_tensor.h"

static tensor_stat stat_of(tensor_type type, int64_t n, const void *data)
{
    tensor_stat out;
    const tensor_given given = {"x", type, n, 0, data};
    own_buf file = tensor_file(&given, 1);
    own_checkpoint *c = tensor_open(&file, "x");
    CHECK_OK(tensor_stats(&out, c, &(int64_t){0}, 1, NULL, NULL, &e));
    return out;
}

static double value(stat_number x)
{
    double magnitude = x.is_integer ? (double)x.magnitude : x.x;
    return x.negative ? -magnitude : magnitude;
}

static int near(double got, double want, double size)
{
    double most = 1e-13 * size;
    if (fabs(got - want) <= most)
        return 1;
    printf("# %.17g, not %.17g\n", got, want);
    return 0;
}

/* The same by two passes of long double. */
static void check(tensor_type type, int64_t n, const void *data)
{
    tensor_stat got = stat_of(type, n, data);
    double *x = malloc((size_t)n * sizeof *x + 1), low = INFINITY, high = -INFINITY;
    long double sum = 0, squares = 0;
    int64_t finite = 0, zeros = 0, nan = 0, inf = 0;
    tensor_decode_f64(x, type, data, n);
    for (int64_t i = 0; i < n; i++) {
        nan += isnan(x[i]);
        inf += isinf(x[i]) != 0;
        zeros += x[i] == 0;
        if (!isfinite(x[i]))
            continue;
        finite++;
        sum += x[i];
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    long double mean = finite ? sum / (long double)finite : 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            squares += (x[i] - mean) * (x[i] - mean);
    CHECK(got.has_numbers);
    CHECK_INT(got.elements, n);
    CHECK_INT(got.finite, finite);
    CHECK_INT(got.zeros, zeros);
    CHECK_INT(got.nan, nan);
    CHECK_INT(got.inf, inf);
    if (finite) {
        double std = (double)sqrtl(squares / (long double)finite);
        double size = fabs(low) > fabs(high) ? fabs(low) : fabs(high);
        CHECK(value(got.min) == low);
        CHECK(value(got.max) == high);
        CHECK(value(got.absmax) == size);
        CHECK(near(got.mean, (double)mean, size));
        CHECK(near(got.std, std, std * 100));
    }
    free(x);
}

/* Bits of any kind; BOOL has bytes 0 and 1. */
static void *random_data(tensor_type type, int64_t n, uint64_t *state)
{
    int64_t bytes = tensor_type_bytes(type, n);
    unsigned char *data = malloc((size_t)bytes + 1);
    for (int64_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(next_random(state) & (type == TENSOR_BOOL ? 1 : 255));
    return data;
}

TEST(tensor_stat_every_type)
{
    static const int64_t lengths[] = {0, 4, 16, 20, 4096, 4100, WALK_PIECE + 4};
    uint64_t state = 1;
    for (int t = 0; t < TENSOR_NSAFE; t++) {
        if (t == TENSOR_C64)
            continue;
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            OWN(test_free) void *data = random_data((tensor_type)t, lengths[i], &state);
            /* Random float64 are as large as their squares are not. */
            for (int64_t k = 0; t == TENSOR_F64 && k < lengths[i]; k++)
                if (k % 3)
                    ((double *)data)[k] = ldexp((double)next_random(&state), -60) - 3;
                else if (k % 7)
                    ((double *)data)[k] = 0;
            check((tensor_type)t, lengths[i], data);
        }
    }
}

/* All lengths within a block, and of what is in it. */
TEST(tensor_stat_lengths)
{
    uint64_t state = 2;
    float x[70];
    for (int64_t n = 0; n < 70; n++) {
        for (int64_t i = 0; i < n; i++) {
            uint64_t r = next_random(&state);
            x[i] = r % 5 == 0   ? NAN
                   : r % 5 == 1 ? INFINITY
                   : r % 5 == 2 ? -0.0f
                                : (float)(r >> 40) - 8e6f;
        }
        check(TENSOR_F32, n, x);
    }
}

/* Finite blocks, whose least and largest are told from the codes of BF16: of one sign or of both,
 * with zeros of both signs or none; and one number among them that is not finite. */
TEST(tensor_stat_finite_blocks)
{
    static const tensor_type types[] = {TENSOR_BF16, TENSOR_F32};
    static const float from[] = {-2, -2, 1, -1, 0}, to[] = {2, -1, 2, 0, 1};
    uint64_t state = 3;
    int64_t n = 3 * 4096;
    OWN(test_free) float *x = malloc(sizeof *x * (size_t)n);
    OWN(test_free) void *data = malloc(sizeof *x * (size_t)n);
    for (int k = 0; k < 5; k++) {
        for (int zeros = 0; zeros < 4; zeros++) {
            for (int64_t i = 0; i < n; i++) {
                float part = (float)(next_random(&state) >> 40) * 0x1p-24f;
                x[i] = from[k] + (to[k] - from[k]) * part;
                if (zeros > 0 && i % 50 < zeros)
                    x[i] = i % 50 ? 0 : -0.0f;
            }
            for (int t = 0; t < 2; t++) {
                tensor_convert(data, types[t], x, TENSOR_F32, n);
                check(types[t], n, data);
            }
            x[5000] = zeros % 2 ? -INFINITY : NAN;
            for (int t = 0; t < 2; t++) {
                tensor_convert(data, types[t], x, TENSOR_F32, n);
                check(types[t], n, data);
            }
        }
    }
}

TEST(tensor_stat_nothing_finite)
{
    OWN(test_free) float *x = malloc(sizeof *x * (WALK_PIECE + 5000));
    for (int64_t i = 0; i < WALK_PIECE + 5000; i++)
        x[i] = i % 3 ? NAN : -INFINITY;
    check(TENSOR_F32, 3, x);
    check(TENSOR_F32, WALK_PIECE + 5000, x);
    x[WALK_PIECE + 4999] = 7; /* the only one is the last */
    check(TENSOR_F32, WALK_PIECE + 5000, x);
    x[0] = -0.0f;
    check(TENSOR_F32, WALK_PIECE + 5000, x);
}

/* Numbers far from 0 beside their deviation: a sum of plain squares would have no digit of it. */
TEST(tensor_stat_far_from_zero)
{
    int64_t n = 3 * WALK_PIECE + 77;
    OWN(test_free) double *x = malloc(sizeof *x * (size_t)n);
    uint64_t state = 3;
    for (int64_t i = 0; i < n; i++)
        x[i] = 1e9 + ldexp((double)next_random(&state), -64);
    check(TENSOR_F64, n, x);
}

TEST(tensor_stat_squares_overflow)
{
    static const double scales[] = {0x1p1020, 0x1p-1040, 0x1p-1074, 0x1p600, 0x1p-600};
    int64_t n = WALK_PIECE + 9;
    OWN(test_free) double *x = malloc(sizeof *x * (size_t)n);
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
        for (int64_t i = 0; i < n; i++)
            x[i] = (double)(i % 7 - 2) * scales[k];
        tensor_stat got = stat_of(TENSOR_F64, n, x);
        CHECK(got.max.x == 4 * scales[k]);
        CHECK(got.min.x == -2 * scales[k]);
        /* The mean of the smallest numbers rounds to one of them. */
        CHECK(near(got.mean / scales[k], 1, k == 2 ? 0 : 1e9));
        CHECK(near(got.std / scales[k], 2, k == 2 ? 0 : 1e9));
    }
}

TEST(tensor_stat_integers_are_exact)
{
    const int64_t i[] = {INT64_MIN, INT64_MAX, 0, -1};
    const uint64_t u[] = {UINT64_MAX, UINT64_MAX - 1, INT64_MAX};
    const int64_t one[] = {INT64_C(9007199254740993)};
    tensor_stat s = stat_of(TENSOR_I64, 4, i);
    CHECK(s.min.is_integer && s.min.negative && s.min.magnitude == UINT64_C(1) << 63);
    CHECK(!s.max.negative && s.max.magnitude == INT64_MAX);
    CHECK(!s.absmax.negative && s.absmax.magnitude == UINT64_C(1) << 63);
    CHECK_INT(s.zeros, 1);
    s = stat_of(TENSOR_U64, 3, u);
    CHECK(s.min.magnitude == INT64_MAX && !s.min.negative);
    CHECK(s.max.magnitude == UINT64_MAX && !s.max.negative);
    CHECK_INT(s.zeros, 0);
    s = stat_of(TENSOR_I64, 1, one);
    CHECK(s.max.magnitude == UINT64_C(9007199254740993) && s.std == 0);
}

/* Types without numbers have their elements alone. */
TEST(tensor_stat_no_numbers)
{
    const float c[] = {1, 2};
    tensor_stat s = stat_of(TENSOR_C64, 1, c);
    CHECK(!s.has_numbers);
    CHECK_INT(s.elements, 1);
    CHECK_INT(s.finite, 0);
    CHECK(tensor_stat_can(TENSOR_F4));
    CHECK(tensor_stat_can(TENSOR_U64));
    CHECK(!tensor_stat_can(TENSOR_Q4_0));
}

/* ---- Threads --------------------------------------------------------------------------------- */

static tensor_stat *stat_with(const char *threads, const buf *file)
{
    tensor_stat *out = test_shared(2 * sizeof *out);
    IN_CHILD(threads) {
        checkpoint *c = tensor_open(file, "x");
        CHECK_OK(tensor_stats(out, c, (int64_t[]){0, 1}, 2, NULL, NULL, &e));
    }
    return out;
}

TEST(tensor_stat_threads_change_no_bit)
{
    int64_t n = 40 * WALK_PIECE + 13;
    OWN(test_free) float *x = malloc(sizeof *x * (size_t)n);
    uint64_t state = 5;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)ldexp((double)next_random(&state) - 0x1p62, -62);
    const tensor_given given[] = {{"x", TENSOR_F32, n, 0, x}, {"y", TENSOR_BF16, n, 0, x}};
    own_buf file = tensor_file(given, 2);
    const tensor_stat *one = stat_with("1", &file);
    static const char *const counts[] = {"2", "3", "4", "5", "8"};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const tensor_stat *more = stat_with(counts[i], &file);
        for (int k = 0; k < 2; k++) {
            CHECK(memcmp(&one[k].mean, &more[k].mean, sizeof(double)) == 0);
            CHECK(memcmp(&one[k].std, &more[k].std, sizeof(double)) == 0);
            CHECK(one[k].min.x == more[k].min.x && one[k].max.x == more[k].max.x);
            CHECK_INT(one[k].finite, more[k].finite);
        }
    }
}

TEST(tensor_stat_no_memory)
{
    int64_t count = 2 * WALK_PIECE;
    OWN(test_free) double *x = calloc((size_t)count, sizeof *x);
    x[0] = 0x1p1000;
    const tensor_given given = {"x", TENSOR_F64, count, 0, x};
    own_buf file = tensor_file(&given, 1);
    own_checkpoint *c = tensor_open(&file, "x");
    tensor_stat out;
    CHECK(FAILURES(tensor_stats(&out, c, &(int64_t){0}, 1, NULL, NULL, &e)) > 6);
}
