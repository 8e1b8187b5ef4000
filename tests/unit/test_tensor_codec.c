/* Numbers of tensors: against ml_dtypes by checksums, against definitions that are slow and plain,
 * and at every border. */
#include "checkpoint/tensor_codec.h"

#include <math.h>

#include "tensor_codec_reference.h"
#include "test.h"

/* ---- ml_dtypes ------------------------------------------------------------------------------- */

enum { NUMBERS = 100000 };

static uint64_t fnv(const void *data, int64_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = UINT64_C(14695981039346656037);
    for (int64_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * UINT64_C(1099511628211);
    return h;
}

/* The sequence of tests/checkpoint/tensor_codec.py. */
static void fill_numbers(float *x)
{
    uint64_t state = 1;
    for (int i = 0; i < NUMBERS; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t u = (uint32_t)(state >> 32), near = (uint32_t)(state >> 16 & 3) - 1;
        if (i % 2)
            u = u & 0x40000000 ? u & 0xc7ffffff : (u & 0x8fffffff) | 0x30000000;
        if (i % 4 > 1)
            u = (u & 0xfff80000) + (near == 2 ? 0 : near);
        memcpy(&x[i], &u, sizeof u);
    }
}

/* A byte for each code, element by element as the packing is defined. */
static void unpack(unsigned char *codes, const unsigned char *data, int bits, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        codes[i] = 0;
        for (int64_t b = 0; b < bits; b++)
            codes[i] |= (unsigned char)((data[(i * bits + b) / 8] >> (i * bits + b) % 8 & 1) << b);
    }
}

static void pack(unsigned char *data, const unsigned char *codes, int bits, int64_t n)
{
    memset(data, 0, (size_t)(n * bits + 7) / 8);
    for (int64_t b = 0; b < n * bits; b++)
        data[b / 8] |= (unsigned char)((codes[b / bits] >> b % bits & 1) << b % 8);
}

static void check_reference(tensor_type t, int bits, uint64_t decoded, uint64_t encoded)
{
    static float x[NUMBERS];
    static double wide[NUMBERS];
    static unsigned char data[NUMBERS], again[NUMBERS], codes[NUMBERS];
    float all[256];
    for (int i = 0; i < 256; i++)
        codes[i] = (unsigned char)i;
    pack(data, codes, bits, 1 << bits);
    tensor_decode_f32(all, t, data, 1 << bits);
    CHECK(fnv(all, (int64_t)sizeof(float) << bits) == decoded);

    fill_numbers(x);
    for (int i = 0; i < NUMBERS; i++) {
        if (bits < 8 && x[i] != x[i])
            x[i] = 1;
        wide[i] = (double)x[i];
    }
    CHECK_INT(tensor_convert(data, t, x, TENSOR_F32, NUMBERS), -1);
    unpack(codes, data, bits, NUMBERS);
    CHECK(fnv(codes, NUMBERS) == encoded);
    CHECK_INT(tensor_convert(again, t, wide, TENSOR_F64, NUMBERS), -1);
    CHECK(memcmp(data, again, (size_t)tensor_type_bytes(t, NUMBERS)) == 0);
}

TEST(tensor_codec_as_ml_dtypes)
{
#define CHECK_REFERENCE(type, bits, decoded, encoded) check_reference(type, bits, decoded, encoded);
    TENSOR_CODEC_REFERENCES(CHECK_REFERENCE)
#undef CHECK_REFERENCE
}

/* ---- Definitions ----------------------------------------------------------------------------- */

/* A float type without e8m0: bits of exponent and fraction, bias, largest code of a finite number,
 * code of a number too large, both without sign. */
static const struct definition {
    tensor_type type;
    int exponent, fraction, bias;
    int largest, over;
    bool no_minus_zero;
} definitions[] = {
    {TENSOR_F8_E5M2, 5, 2, 15, 0x7b, 0x7c, false},
    {TENSOR_F8_E4M3, 4, 3, 7, 0x7e, 0x7f, false},
    {TENSOR_F8_E4M3FNUZ, 4, 3, 8, 0x7f, 0x80, true},
    {TENSOR_F8_E5M2FNUZ, 5, 2, 16, 0x7f, 0x80, true},
    {TENSOR_F6_E2M3, 2, 3, 1, 0x1f, 0x1f, false},
    {TENSOR_F6_E3M2, 3, 2, 3, 0x1f, 0x1f, false},
    {TENSOR_F4, 2, 1, 1, 7, 7, false},
    {TENSOR_F16, 5, 10, 15, 0x7bff, 0x7c00, false},
    {TENSOR_BF16, 8, 7, 127, 0x7f7f, 0x7f80, false},
};
enum { DEFINITIONS = sizeof definitions / sizeof *definitions };

/* The number of a code without sign; behind the largest, as if there were more of them. */
static double value_of(const struct definition *f, int code)
{
    int exponent = code >> f->fraction, fraction = code & ((1 << f->fraction) - 1);
    return exponent == 0 ? ldexp(fraction, 1 - f->bias - f->fraction)
                         : ldexp(fraction + (1 << f->fraction), exponent - f->bias - f->fraction);
}

/* Checks x and -x, x >= 0, against the nearest code, by bisection over those of finite numbers and
 * one more. */
static void check_nearest(const struct definition *f, double x)
{
    int low = 0, high = f->largest + 1;
    while (high - low > 1) {
        int mid = (low + high) / 2;
        if (value_of(f, mid) <= x)
            low = mid;
        else
            high = mid;
    }
    double below = x - value_of(f, low), above = value_of(f, high) - x;
    int want = below < above || (below == above && !(low & 1)) ? low : high;
    want = want > f->largest ? f->over : want;
    int sign = f->no_minus_zero && (want & 0x7f) == 0 ? 0 : 1 << (f->exponent + f->fraction);
    uint16_t code = 0, minus = 0;
    double both[2] = {x, -x};
    CHECK_INT(tensor_convert(&code, f->type, &both[0], TENSOR_F64, 1), -1);
    CHECK_INT(tensor_convert(&minus, f->type, &both[1], TENSOR_F64, 1), -1);
    CHECK_INT(code, want);
    CHECK_INT(minus, want | sign);
}

TEST(tensor_codec_rounds_once_from_f64)
{
    for (const struct definition *f = definitions; f < definitions + DEFINITIONS; f++) {
        for (int code = 0; code <= f->largest; code++) {
            double x = value_of(f, code), tie = (x + value_of(f, code + 1)) / 2;
            uint16_t data = (uint16_t)code;
            double got;
            tensor_decode_f64(&got, f->type, &data, 1);
            CHECK(got == x);
            check_nearest(f, x);
            check_nearest(f, tie);
            /* float32 rounds these to the tie, and does not know the last two apart from it. */
            check_nearest(f, tie * (1 - 0x1p-40));
            check_nearest(f, tie * (1 + 0x1p-40));
            check_nearest(f, nextafter(tie, 0));
            check_nearest(f, nextafter(tie, INFINITY));
        }
        check_nearest(f, 0x1p-1074);
        check_nearest(f, 1e300);
    }
}

/* n numbers become these bytes. */
static void converts(tensor_type to, tensor_type from, const void *x, int64_t n, const void *want)
{
    uint64_t got[8];
    CHECK_INT(tensor_convert(got, to, x, from, n), -1);
    CHECK(memcmp(got, want, (size_t)tensor_type_bytes(to, n)) == 0);
}

TEST(tensor_codec_integers_round_once_to_floats)
{
    /* 2^62 + 2^54 is a tie of BF16; one more is lost where float32 or float64 comes between. */
    int64_t tie = (INT64_C(1) << 62) + (INT64_C(1) << 54), x[] = {tie, tie + 1, -tie - 1};
    uint64_t u[] = {2 * (uint64_t)tie, 2 * (uint64_t)tie + 1, 0x8000008000000001, UINT64_MAX};
    converts(TENSOR_BF16, TENSOR_I64, x, 3, (uint16_t[]){0x5e80, 0x5e81, 0xde81});
    converts(TENSOR_BF16, TENSOR_U64, u, 4, (uint16_t[]){0x5f00, 0x5f01, 0x5f00, 0x5f80});
    converts(TENSOR_F32, TENSOR_U64, u + 1, 3, (float[]){0x1.01p63f, 0x1.000002p63f, 0x1p64f});
    converts(TENSOR_F64, TENSOR_U64, u + 1, 1, (double[]){0x1.01p63});
    converts(TENSOR_F64, TENSOR_U64, u + 3, 1, (double[]){0x1p64});
    int64_t some[] = {17, 19, 464, 465}; /* 16, 20, 448 and nan */
    converts(TENSOR_F8_E4M3, TENSOR_I64, some, 4, (uint8_t[]){0x58, 0x5a, 0x7e, 0x7f});
}

TEST(tensor_codec_special_numbers)
{
    float x[] = {INFINITY, -INFINITY, NAN, -NAN, 0, -0.0f};
    static const struct {
        tensor_type type;
        unsigned char codes[6];
    } rows[] = {
        {TENSOR_F8_E5M2, {0x7c, 0xfc, 0x7e, 0xfe, 0, 0x80}},
        {TENSOR_F8_E4M3, {0x7f, 0xff, 0x7f, 0xff, 0, 0x80}},
        {TENSOR_F8_E4M3FNUZ, {0x80, 0x80, 0x80, 0x80, 0, 0}},
        {TENSOR_F8_E5M2FNUZ, {0x80, 0x80, 0x80, 0x80, 0, 0}},
        {TENSOR_F8_E8M0, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        converts(rows[r].type, TENSOR_F32, x, 6, rows[r].codes);
    static const struct {
        double x;
        int code;
    } powers[] = {
        {0x1p-127, 0},     {0x1p-149, 0}, {0x1p-1074, 0},  {0x1.0002p-127, 1}, {0x1p-126, 1},
        {0x1.7fp-126, 1},  {1, 127},      {1.4999, 127},   {1.5, 128},         {3, 129},
        {0x1.7fp127, 254}, {-1, 255},     {0x1.8p127, 255}, {1e300, 255},
        {0x1.7fffffffffffp0, 127}, /* float32 rounds it to 1.5 */
    };
    for (size_t r = 0; r < sizeof powers / sizeof *powers; r++) {
        unsigned char got;
        CHECK_INT(tensor_convert(&got, TENSOR_F8_E8M0, &powers[r].x, TENSOR_F64, 1), -1);
        CHECK_INT(got, powers[r].code);
    }
}

TEST(tensor_codec_packs_from_the_low_bits)
{
    float x[] = {1, 6, -0.5f, 2, 4};
    unsigned char got[4] = {0xff, 0xff, 0xff, 0xff};
    /* Codes of F4: 2, 7, 9, 4, 6. The half of the last byte behind them is 0. */
    CHECK_INT(tensor_convert(got, TENSOR_F4, x, TENSOR_F32, 5), -1);
    CHECK(memcmp(got, "\x72\x49\x06\xff", 4) == 0);
    float back[6] = {0};
    tensor_decode_f32(back, TENSOR_F4, got, 5);
    CHECK(memcmp(back, x, sizeof x) == 0 && back[5] == 0);
    /* Codes of F6_E2M3: 0x08, 0x1c, 0x24, 0x10, 0x18, which is bits 24 to 29. */
    CHECK_INT(tensor_convert(got, TENSOR_F6_E2M3, x, TENSOR_F32, 5), -1);
    const unsigned char want[] = {0x08 | (0x1c & 3) << 6, 0x1c >> 2 | (0x24 & 15) << 4,
                                  0x24 >> 4 | 0x10 << 2, 0x18};
    CHECK(memcmp(got, want, 4) == 0);
    memset(back, 0, sizeof back);
    tensor_decode_f32(back, TENSOR_F6_E2M3, got, 5);
    CHECK(memcmp(back, x, sizeof x) == 0 && back[5] == 0);
}

/* ---- Integers -------------------------------------------------------------------------------- */

static int64_t fits(tensor_type t, double x)
{
    uint64_t data;
    return tensor_convert(&data, t, &x, TENSOR_F64, 1) < 0;
}

TEST(tensor_codec_integers_at_their_borders)
{
    static const struct {
        tensor_type type;
        double low, high; /* the smallest and largest float64 that fit */
        int64_t least;
        uint64_t most;
    } rows[] = {
        {TENSOR_BOOL, 0, 1, 0, 1},
        {TENSOR_U8, -0.5, 0x1.fefffffffffffp7, 0, 255},
        {TENSOR_I8, -128.5, 0x1.fdfffffffffffp6, -128, 127},
        {TENSOR_U16, -0.5, 0x1.fffefffffffffp15, 0, 65535},
        {TENSOR_I16, -32768.5, 0x1.fffdfffffffffp14, -32768, 32767},
        {TENSOR_U32, -0.5, 0x1.fffffffefffffp31, 0, UINT32_MAX},
        {TENSOR_I32, -2147483648.5, 0x1.fffffffdfffffp30, INT32_MIN, INT32_MAX},
        {TENSOR_U64, -0.5, 0x1.fffffffffffffp63, 0, UINT64_MAX},
        {TENSOR_I64, -0x1p63, 0x1.fffffffffffffp62, INT64_MIN, INT64_MAX},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        tensor_type t = rows[r].type;
        CHECK(fits(t, rows[r].low) && fits(t, rows[r].high));
        CHECK(!fits(t, nextafter(rows[r].low, -INFINITY)));
        CHECK(!fits(t, nextafter(rows[r].high, INFINITY)));
        CHECK(!fits(t, NAN) && !fits(t, INFINITY) && !fits(t, -INFINITY));

        uint64_t data, most = rows[r].most, back;
        int64_t least = rows[r].least, below = least - (least != INT64_MIN), signed_back;
        CHECK_INT(tensor_convert(&data, t, &least, TENSOR_I64, 1), -1);
        CHECK_INT(tensor_decode_i64(&signed_back, t, &data, 1), -1);
        CHECK_INT(signed_back, least);
        CHECK_INT(tensor_decode_u64(&back, t, &data, 1), least < 0 ? 0 : -1);
        CHECK_INT(tensor_convert(&data, t, &below, TENSOR_I64, 1), least == INT64_MIN ? -1 : 0);
        CHECK_INT(tensor_convert(&data, t, &most, TENSOR_U64, 1), -1);
        CHECK_INT(tensor_decode_u64(&back, t, &data, 1), -1);
        CHECK(back == most);
        CHECK_INT(tensor_decode_i64(&signed_back, t, &data, 1), t == TENSOR_U64 ? 0 : -1);
        most++;
        CHECK_INT(tensor_convert(&data, t, &most, TENSOR_U64, 1), t == TENSOR_U64 ? -1 : 0);
        if (most <= INT64_MAX) {
            int64_t beyond = (int64_t)most;
            CHECK_INT(tensor_convert(&data, t, &beyond, TENSOR_I64, 1), t == TENSOR_U64 ? -1 : 0);
        }
    }
    CHECK(!fits(TENSOR_BOOL, 0.5) && !fits(TENSOR_BOOL, 2) && fits(TENSOR_BOOL, -0.0));
}

TEST(tensor_codec_floats_to_the_nearest_integer)
{
    float x[] = {0.5f, 1.5f, 2.5f, -2.5f, -0.4f, 126.6f};
    converts(TENSOR_I8, TENSOR_F32, x, 6, (int8_t[]){0, 2, 2, -2, 0, 127});
}

TEST(tensor_codec_64_bits_as_floats_round)
{
    int64_t x[] = {INT64_MAX, (INT64_C(1) << 53) + 1, INT64_MIN};
    uint64_t u = UINT64_MAX;
    double d[3];
    float f[3];
    tensor_decode_f64(d, TENSOR_I64, x, 3);
    CHECK(d[0] == 0x1p63 && d[1] == 0x1p53 && d[2] == -0x1p63);
    tensor_decode_f64(d, TENSOR_U64, &u, 1);
    CHECK(d[0] == 0x1p64);
    tensor_decode_f32(f, TENSOR_I64, x, 3);
    CHECK(f[0] == 0x1p63f && f[1] == 0x1p53f);
    d[0] = 1 + 0x1p-24 + 0x1p-50;
    tensor_decode_f32(f, TENSOR_F64, d, 1);
    CHECK(f[0] == 1 + 0x1p-23f);
}

/* ---- From type to type ----------------------------------------------------------------------- */

/* More than two blocks, and no whole run of F4 or F6. */
enum { MANY = 2049 };

static bool has_numbers(int t)
{
    kv_dtype dtype;
    return tensor_type_dtype((tensor_type)t, &dtype);
}

/* Numbers that every type has; E8M0 has no 0, and BOOL no more than two. */
static void fill_common(double *x, int a, int b)
{
    for (int i = 0; i < MANY; i++)
        x[i] = a == TENSOR_BOOL || b == TENSOR_BOOL ? 1 : i % 3 == 0 ? 2 : 1;
}

TEST(tensor_codec_every_pair_at_any_address)
{
    static double x[MANY], got[MANY];
    static char memory[2][8 * MANY + 8];
    int pairs = 0;
    for (int from = 0; from < TENSOR_NSAFE; from++) {
        for (int to = 0; to < TENSOR_NSAFE; to++) {
            if (!has_numbers(from) || !has_numbers(to))
                continue;
            fill_common(x, from, to);
            for (int shift = 0; shift < 4; shift++, pairs++) {
                char *src = memory[0] + (shift & 1), *dst = memory[1] + (shift >> 1);
                memset(memory[1], 0x55, sizeof memory[1]);
                CHECK_INT(tensor_convert(src, (tensor_type)from, x, TENSOR_F64, MANY), -1);
                CHECK_INT(tensor_convert(dst, (tensor_type)to, src, (tensor_type)from, MANY), -1);
                tensor_decode_f64(got, (tensor_type)to, dst, MANY);
                CHECK(memcmp(got, x, sizeof x) == 0);
                int64_t run = tensor_type_run((tensor_type)to);
                int64_t bytes = (MANY + run - 1) / run * tensor_type_run_bytes((tensor_type)to);
                CHECK(dst[bytes] == 0x55);
            }
        }
    }
    CHECK_INT(pairs, 21 * 21 * 4);
}

/* What one element becomes, as float64. */
static double converted(tensor_type to, tensor_type from, const void *x)
{
    uint64_t data;
    double out;
    CHECK_INT(tensor_convert(&data, to, x, from, 1), -1);
    tensor_decode_f64(&out, to, &data, 1);
    return out;
}

TEST(tensor_codec_converts_through_what_is_exact)
{
    int32_t i32 = INT32_MAX;
    uint32_t u32 = UINT32_MAX;
    uint64_t u64 = UINT64_MAX, big = (UINT64_C(1) << 60) + 1;
    double x = 1 + 0x1p-8 + 0x1p-40, third = -2.75, wide = 0x1.fffffffffffffp62;
    float small = 0x1p-149f;
    CHECK(converted(TENSOR_F64, TENSOR_I32, &i32) == 2147483647.0);
    CHECK(converted(TENSOR_I64, TENSOR_I32, &i32) == 2147483647.0);
    CHECK(converted(TENSOR_F64, TENSOR_U32, &u32) == 4294967295.0);
    CHECK(converted(TENSOR_U64, TENSOR_U32, &u32) == 4294967295.0);
    CHECK(converted(TENSOR_F64, TENSOR_U64, &u64) == 0x1p64);
    CHECK(converted(TENSOR_BF16, TENSOR_F64, &x) == 1 + 0x1p-7);
    CHECK(converted(TENSOR_F32, TENSOR_F64, &x) == 1 + 0x1p-8);
    CHECK(converted(TENSOR_F16, TENSOR_F64, &third) == third);
    CHECK(converted(TENSOR_I16, TENSOR_F64, &third) == -3);
    CHECK(converted(TENSOR_I64, TENSOR_F64, &wide) == wide);
    CHECK(converted(TENSOR_F64, TENSOR_F32, &small) == 0x1p-149);
    int64_t back;
    CHECK_INT(tensor_convert(&back, TENSOR_I64, &big, TENSOR_U64, 1), -1);
    CHECK_INT(back, (INT64_C(1) << 60) + 1);
}

TEST(tensor_codec_names_the_first_that_does_not_fit)
{
    static float x[MANY];
    static uint64_t u[MANY], out[MANY];
    static unsigned char truth[MANY];
    x[1500] = x[1600] = NAN;
    CHECK_INT(tensor_convert(out, TENSOR_F4, x, TENSOR_F32, MANY), 1500);
    CHECK_INT(tensor_convert(out, TENSOR_F6_E3M2, x, TENSOR_F32, MANY), 1500);
    CHECK_INT(tensor_convert(out, TENSOR_I8, x, TENSOR_F32, MANY), 1500);
    CHECK_INT(tensor_convert(out, TENSOR_F4, x, TENSOR_F32, 1500), -1);
    CHECK_INT(tensor_convert(out, TENSOR_F8_E8M0, x, TENSOR_F32, MANY), -1);
    x[1500] = 128;
    CHECK_INT(tensor_convert(out, TENSOR_I8, x, TENSOR_F32, MANY), 1500);
    u[2048] = UINT64_C(1) << 63;
    CHECK_INT(tensor_to_array(out, TENSOR_U64, u, MANY), 2048);
    CHECK_INT(tensor_convert(out, TENSOR_I64, u, TENSOR_U64, MANY), 2048);
    CHECK_INT(tensor_convert(out, TENSOR_U32, u, TENSOR_U64, MANY), 2048);
    CHECK_INT(tensor_convert(out, TENSOR_F64, u, TENSOR_U64, MANY), -1);
    u[1030] = UINT64_MAX; /* -1 */
    CHECK_INT(tensor_convert(out, TENSOR_U16, u, TENSOR_I64, MANY), 1030);
    truth[1030] = 2;
    CHECK_INT(tensor_to_array(out, TENSOR_BOOL, truth, MANY), 1030);
    CHECK_INT(tensor_convert(out, TENSOR_F32, truth, TENSOR_BOOL, MANY), 1030);
    tensor_decode_f32(x, TENSOR_BOOL, truth, MANY);
    CHECK(x[1030] == 1);
}

TEST(tensor_codec_arrays)
{
    int16_t i16[2] = {-32768, 32767};
    uint16_t u16[2] = {65535, 1};
    uint32_t u32 = UINT32_MAX;
    unsigned char e8m0[2] = {0, 255}, truth = 1;
    int32_t i[2];
    int64_t wide;
    float f[2];
    uint16_t half = 0x7e01, same;
    CHECK_INT(tensor_to_array(i, TENSOR_I16, i16, 2), -1);
    CHECK(i[0] == -32768 && i[1] == 32767);
    CHECK_INT(tensor_to_array(i, TENSOR_U16, u16, 2), -1);
    CHECK(i[0] == 65535 && i[1] == 1);
    CHECK_INT(tensor_to_array(&wide, TENSOR_U32, &u32, 1), -1);
    CHECK_INT(wide, UINT32_MAX);
    CHECK_INT(tensor_to_array(f, TENSOR_F8_E8M0, e8m0, 2), -1);
    CHECK(f[0] == 0x1p-127f && isnan(f[1]));
    CHECK_INT(tensor_to_array(&same, TENSOR_F16, &half, 1), -1);
    CHECK_INT(same, half);
    CHECK_INT(tensor_to_array(&e8m0, TENSOR_BOOL, &truth, 1), -1);
    CHECK_INT(e8m0[0], 1);
}

TEST(tensor_codec_complex_is_pairs)
{
    float x[4] = {1, -2, 3, NAN}, f[4];
    double d[4];
    tensor_decode_f32(f, TENSOR_C64, x, 2);
    tensor_decode_f64(d, TENSOR_C64, x, 2);
    CHECK(memcmp(f, x, sizeof x) == 0);
    CHECK(d[0] == 1 && d[1] == -2 && d[2] == 3 && isnan(d[3]));
}

/* ---- Losses ---------------------------------------------------------------------------------- */

/* The losses of n numbers, by the definition: each is converted alone and read again. */
static tensor_loss plain_losses(tensor_type to, const void *data, tensor_type from, int64_t n)
{
    tensor_loss loss = {.first = -1};
    bool whole = tensor_type_kind(from) != TENSOR_KIND_FLOAT;
    for (int64_t i = 0; i < n; i++) {
        const char *at = (const char *)data + tensor_type_bytes(from, i);
        unsigned char code[8] = {0};
        double was, is;
        tensor_convert(code, to, at, from, 1);
        tensor_decode_f64(&was, from, at, 1);
        tensor_decode_f64(&is, to, code, 1);
        double over = to == TENSOR_F4 ? 7 : to == TENSOR_F6_E2M3 ? 7.75 : 30;
        bool cut = tensor_type_run(to) > 1 && fabs(was) >= over;
        int64_t before = loss.inf + loss.nan + loss.saturated + loss.rounded;
        loss.inf += isfinite(was) && isinf(is);
        loss.nan += isfinite(was) && isnan(is);
        loss.saturated += isfinite(was) && cut;
        loss.rounded += whole && !cut && isfinite(is) && was != is;
        if (loss.first < 0 && loss.inf + loss.nan + loss.saturated + loss.rounded > before)
            loss.first = i;
    }
    return loss;
}

static bool same_losses(tensor_loss a, tensor_loss b)
{
    return a.inf == b.inf && a.nan == b.nan && a.saturated == b.saturated &&
           a.rounded == b.rounded && a.first == b.first;
}

/* Every number of 16 bits, and those of 32 bits around each border, into every float type. */
TEST(tensor_codec_counts_losses)
{
    static const tensor_type froms[] = {TENSOR_F16, TENSOR_BF16, TENSOR_I16, TENSOR_U16,
                                        TENSOR_F32, TENSOR_I32,  TENSOR_F64};
    enum { N = 1 << 16 };
    static union {
        uint16_t u16[N];
        float f32[N];
        int32_t i32[N];
        double f64[N];
    } x;
    for (size_t k = 0; k < sizeof froms / sizeof *froms; k++) {
        int64_t n = 0;
        for (int i = 0; i < N; i++) {
            double border = ldexp(1 + (i & 63) / 64.0, (i >> 6 & 255) - 127);
            border = i >> 14 & 1 ? -border : border;
            if (froms[k] == TENSOR_F32)
                x.f32[i] = i & 1 << 15 ? nextafterf((float)border, INFINITY) : (float)border;
            else if (froms[k] == TENSOR_F64)
                x.f64[i] = i & 1 << 15 ? nextafter(border * 1.5, INFINITY) : border;
            else if (froms[k] == TENSOR_I32)
                x.i32[i] = (int32_t)(((uint32_t)i << 16 | (uint32_t)i) >> i % 16);
            else
                x.u16[i] = (uint16_t)i;
            n++;
        }
        for (tensor_type to = 0; to < TENSOR_NSAFE; to++) {
            static char out[N * 8];
            bool nans = tensor_type_run(to) > 1 && tensor_type_kind(froms[k]) == TENSOR_KIND_FLOAT;
            if (tensor_type_kind(to) != TENSOR_KIND_FLOAT || (nans && froms[k] < TENSOR_F32))
                continue; /* F6 and F4 have no nan */
            tensor_loss loss = {.first = -1};
            CHECK_INT(tensor_convert_counting(out, to, &x, froms[k], n, &loss), -1);
            CHECK(same_losses(loss, plain_losses(to, &x, froms[k], n)));
        }
    }
}

/* Integers of 64 bits, which no float64 holds all of. */
TEST(tensor_codec_counts_losses_of_64_bits)
{
    const int64_t x[] = {(INT64_C(1) << 53) + 1, -(INT64_C(1) << 53) - 1, INT64_C(1) << 60,
                         INT64_MAX, INT64_MIN, 5};
    const uint64_t u[] = {UINT64_MAX, UINT64_C(1) << 63, (UINT64_C(1) << 63) + 1, 7};
    double wide[6];
    uint16_t half[6];
    tensor_loss loss = {.first = -1};
    CHECK_INT(tensor_convert_counting(wide, TENSOR_F64, x, TENSOR_I64, 6, &loss), -1);
    CHECK(loss.rounded == 3 && loss.first == 0 && loss.inf == 0);
    loss = (tensor_loss){.first = -1};
    CHECK_INT(tensor_convert_counting(wide, TENSOR_F64, u, TENSOR_U64, 4, &loss), -1);
    CHECK(loss.rounded == 2 && loss.first == 0);
    loss = (tensor_loss){.first = -1};
    CHECK_INT(tensor_convert_counting(half, TENSOR_F16, x, TENSOR_I64, 6, &loss), -1);
    CHECK(loss.inf == 5 && loss.rounded == 0 && loss.first == 0);
}
