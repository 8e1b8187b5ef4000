/* Conversions between all dtypes, one element and many. */
#include "cpu/cpu.h"

#include <math.h>

#include "test.h"

static int64_t f64_to(kv_dtype to, double x)
{
    int64_t y;
    char element[8];
    convert_elements(element, to, &x, KV_FLOAT64, 1);
    convert_elements(&y, KV_INT64, element, to, 1);
    return y;
}

TEST(convert_float_to_integer_truncates_and_saturates)
{
    static const struct {
        kv_dtype to;
        double x;
        int64_t want;
    } cases[] = {
        {KV_INT8, -1.9, -1},       {KV_INT8, 127.9, 127},
        {KV_INT8, 128, 127},       {KV_INT8, -INFINITY, -128},
        {KV_UINT8, -1, 0},         {KV_UINT8, 255.5, 255},
        {KV_UINT8, 1e300, 255},    {KV_UINT8, NAN, 0},
        {KV_INT32, NAN, 0},        {KV_INT32, 2147483647.5, INT32_MAX},
        {KV_INT32, -3e9, INT32_MIN}, {KV_INT64, 0x1p63, INT64_MAX},
        {KV_INT64, -0x1p63, INT64_MIN}, {KV_INT64, -INFINITY, INT64_MIN},
        {KV_INT64, NAN, 0},        {KV_INT64, -2.5, -2},
        {KV_INT64, 0x1.fffffffffffffp62, 0x7ffffffffffffc00},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_INT(f64_to(cases[i].to, cases[i].x), cases[i].want);
    float x = 2147483648.0f;
    int32_t y;
    convert_elements(&y, KV_INT32, &x, KV_FLOAT32, 1);
    CHECK_INT(y, INT32_MAX);
}

TEST(convert_integer_to_integer_wraps)
{
    int64_t x[] = {300, -1, INT64_C(1) << 32, 256};
    uint8_t u[4], b[4];
    int32_t i[4];
    convert_elements(u, KV_UINT8, x, KV_INT64, 4);
    convert_elements(i, KV_INT32, x, KV_INT64, 4);
    convert_elements(b, KV_BOOL, x, KV_INT64, 4);
    CHECK(u[0] == 44 && u[1] == 255 && i[1] == -1 && i[2] == 0 && b[2] == 1 && b[3] == 1);
}

TEST(convert_bool)
{
    CHECK(f64_to(KV_BOOL, 0) == 0 && f64_to(KV_BOOL, -0.0) == 0);
    CHECK(f64_to(KV_BOOL, 1e-300) == 1 && f64_to(KV_BOOL, NAN) == 1);
    uint8_t odd[2] = {7, 0}, same[2];
    float x[2];
    convert_elements(same, KV_BOOL, odd, KV_BOOL, 2);
    convert_elements(x, KV_FLOAT32, odd, KV_BOOL, 2);
    CHECK_INT(same[0], 1);
    CHECK(x[0] == 1 && x[1] == 0);
}

TEST(convert_to_half_rounds_once)
{
    /* Each number lies just beside a tie that float32, or binary64, would round it to. */
    static const struct {
        kv_dtype to;
        double x;
        uint16_t want;
    } cases[] = {{KV_FLOAT16, 1 + 0x1p-11 + 0x1p-40, 0x3c01},
                 {KV_FLOAT16, 1 + 3 * 0x1p-11 - 0x1p-40, 0x3c01},
                 {KV_BFLOAT16, 1 + 0x1p-8 + 0x1p-40, 0x3f81},
                 {KV_BFLOAT16, 1 + 3 * 0x1p-8 - 0x1p-40, 0x3f81},
                 {KV_FLOAT16, 0x1p-25 + 0x1p-60, 1},
                 {KV_BFLOAT16, -(0x1p-134 + 0x1p-180), 0x8001},
                 {KV_BFLOAT16, 1e300, 0x7f80}};
    static const struct {
        kv_dtype to;
        int64_t x;
        uint16_t want;
    } whole[] = {{KV_BFLOAT16, (INT64_C(1) << 62) + (INT64_C(1) << 54) + 1, 0x5e81},
                 {KV_BFLOAT16, -(INT64_C(1) << 62) - (INT64_C(1) << 54) - 1, 0xde81},
                 {KV_BFLOAT16, (INT64_C(1) << 62) + (INT64_C(1) << 54), 0x5e80},
                 {KV_BFLOAT16, INT64_MAX, 0x5f00},
                 {KV_FLOAT16, 65519, 0x7bff},
                 {KV_FLOAT16, 65520, 0x7c00}};
    uint16_t h;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        convert_elements(&h, cases[i].to, &cases[i].x, KV_FLOAT64, 1);
        CHECK_INT(h, cases[i].want);
    }
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        convert_elements(&h, whole[i].to, &whole[i].x, KV_INT64, 1);
        CHECK_INT(h, whole[i].want);
    }
    convert_elements(&h, KV_FLOAT16, &(double){NAN}, KV_FLOAT64, 1);
    CHECK((h & 0x7fff) > 0x7c00);
    convert_elements(&h, KV_BFLOAT16, &(int32_t){(1 << 30) + (1 << 22) + 1}, KV_INT32, 1);
    CHECK_INT(h, 0x4e81);
    int64_t l;
    float f;
    l = (INT64_C(1) << 53) + (INT64_C(1) << 29) + 1;
    convert_elements(&f, KV_FLOAT32, &l, KV_INT64, 1);
    CHECK(f == 0x1.000002p53f);
}

/* Lengths around blocks and vectors give what one element at a time gives, for every pair. */
TEST(convert_lengths)
{
    static const kv_dtype all[] = {KV_FLOAT32, KV_FLOAT64, KV_FLOAT16, KV_UINT8,   KV_INT32,
                                   KV_INT8,    KV_INT64,   KV_BOOL,    KV_BFLOAT16};
    static const int lengths[] = {0, 1, 7, 8, 9, 31, 1023, 1024, 1025, 2100};
    static double numbers[2100];
    static char src[2100 * 8], many[2100 * 8 + 8], one[2100 * 8];
    for (int i = 0; i < 2100; i++)
        numbers[i] = (i % 19 - 9) * pow(1.7, i % 83 - 20);
    numbers[5] = NAN, numbers[6] = -INFINITY, numbers[1024] = INFINITY;
    for (size_t t = 0; t < 9 * 9 * 10; t++) {
        kv_dtype to = all[t % 9], from = all[t / 9 % 9];
        int n = lengths[t / 81];
        int64_t tb = kv_dtype_bytes(to), fb = kv_dtype_bytes(from);
        convert_elements(src, from, numbers, KV_FLOAT64, 2100);
        memset(many, 0x55, sizeof many);
        convert_elements(many, to, src, from, n);
        for (int i = 0; i < n; i++)
            convert_elements(one + i * tb, to, src + i * fb, from, 1);
        CHECK(memcmp(many, one, (size_t)(n * tb)) == 0);
        CHECK_INT(many[n * tb], 0x55);
    }
}
