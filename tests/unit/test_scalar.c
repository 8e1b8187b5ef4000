/* scalar: every number of the 16-bit formats, and what fits where. */
#include "test.h"

#include <math.h>

#include "io/scalar.h"

TEST(scalar_halves)
{
    static const kv_dtype dtypes[] = {KV_FLOAT16, KV_BFLOAT16};
    for (int k = 0; k < 2; k++) {
        for (uint32_t bits = 0; bits < 65536; bits++) {
            uint16_t in = (uint16_t)bits, out = 0, text_out = 0;
            double x = scalar_float(dtypes[k], &in, 0);
            CHECK_INT(scalar_set(dtypes[k], &out, 0, x), SCALAR_FITS);
            char text[NUM_TEXT_MAX];
            int n = scalar_text(text, dtypes[k], &in, 0);
            CHECK_INT(scalar_parse(dtypes[k], &text_out, 0, text, (size_t)n), SCALAR_FITS);
            if (isnan(x)) {
                CHECK_INT(out, dtypes[k] == KV_FLOAT16 ? 0x7E00 : 0x7FC0);
                CHECK_INT(text_out, out);
            } else {
                CHECK_INT(out, in);
                CHECK_INT(text_out, in);
            }
        }
    }
}

/* Checks the element that a text becomes in a dtype: if it fits, and its number. */
static void check_parse(kv_dtype dtype, const char *text, scalar_fit fit, double want)
{
    int64_t room = 0;
    CHECK_INT(scalar_parse(dtype, &room, 0, text, strlen(text)), fit);
    if (fit == SCALAR_FITS) {
        double x = scalar_float(dtype, &room, 0);
        CHECK(memcmp(&x, &want, sizeof x) == 0 || (isnan(x) && isnan(want)));
    }
}

TEST(scalar_parse_floats)
{
    check_parse(KV_FLOAT32, "1.5", SCALAR_FITS, 1.5);
    check_parse(KV_FLOAT32, "+2", SCALAR_FITS, 2);
    check_parse(KV_FLOAT32, ".3e1", SCALAR_FITS, 3);
    check_parse(KV_FLOAT32, "-0", SCALAR_FITS, -0.0);
    check_parse(KV_FLOAT32, "NaN", SCALAR_FITS, NAN);
    check_parse(KV_FLOAT32, "-inf", SCALAR_FITS, -INFINITY);
    check_parse(KV_FLOAT32, "true", SCALAR_FITS, 1);
    check_parse(KV_FLOAT32, "False", SCALAR_FITS, 0);
    check_parse(KV_FLOAT32, "1e39", SCALAR_TOO_LARGE, 0);
    check_parse(KV_FLOAT64, "1e39", SCALAR_FITS, 1e39);
    check_parse(KV_FLOAT64, "-1e999", SCALAR_TOO_LARGE, 0);
    check_parse(KV_FLOAT16, "65519.9", SCALAR_FITS, 65504);
    check_parse(KV_FLOAT16, "65520", SCALAR_TOO_LARGE, 0);
    check_parse(KV_BFLOAT16, "1.00390625", SCALAR_FITS, 1);
    check_parse(KV_BFLOAT16, "1.00390626", SCALAR_FITS, 1.0078125);
    check_parse(KV_FLOAT32, "", SCALAR_NO_NUMBER, 0);
    check_parse(KV_FLOAT32, "1 ", SCALAR_NO_NUMBER, 0);
    check_parse(KV_FLOAT32, "1.5x", SCALAR_NO_NUMBER, 0);
    check_parse(KV_FLOAT32, "infinitely", SCALAR_NO_NUMBER, 0);
    check_parse(KV_FLOAT32, "truex", SCALAR_NO_NUMBER, 0);
}

TEST(scalar_parse_integers)
{
    check_parse(KV_INT8, "127", SCALAR_FITS, 127);
    check_parse(KV_INT8, "-128", SCALAR_FITS, -128);
    check_parse(KV_INT8, "128", SCALAR_TOO_LARGE, 0);
    check_parse(KV_INT8, "-129", SCALAR_TOO_LARGE, 0);
    check_parse(KV_INT8, "300", SCALAR_TOO_LARGE, 0);
    check_parse(KV_UINT8, "255", SCALAR_FITS, 255);
    check_parse(KV_UINT8, "-1", SCALAR_TOO_LARGE, 0);
    check_parse(KV_UINT8, "256", SCALAR_TOO_LARGE, 0);
    check_parse(KV_INT32, "2147483647", SCALAR_FITS, 2147483647);
    check_parse(KV_INT32, "2147483648", SCALAR_TOO_LARGE, 0);
    check_parse(KV_INT32, "3.0", SCALAR_FITS, 3);
    check_parse(KV_INT32, "1e3", SCALAR_FITS, 1000);
    check_parse(KV_INT32, "2.5", SCALAR_FRACTION, 0);
    check_parse(KV_INT32, "nan", SCALAR_FRACTION, 0);
    check_parse(KV_INT32, "inf", SCALAR_TOO_LARGE, 0);
    check_parse(KV_INT32, "1e999", SCALAR_TOO_LARGE, 0);
    check_parse(KV_INT64, "1e19", SCALAR_TOO_LARGE, 0);
    check_parse(KV_INT64, "9223372036854775808", SCALAR_TOO_LARGE, 0);
    check_parse(KV_INT64, "1.5e18", SCALAR_FITS, 1.5e18);
    check_parse(KV_INT64, "9007199254740993.5", SCALAR_FRACTION, 0);
    check_parse(KV_INT64, "90071992547409935e-1", SCALAR_FRACTION, 0);
    check_parse(KV_INT64, "-9.3e18", SCALAR_TOO_LARGE, 0);
    check_parse(KV_INT32, "9007199254740993e0", SCALAR_TOO_LARGE, 0);
    check_parse(KV_BOOL, "true", SCALAR_FITS, 1);
    check_parse(KV_BOOL, "FALSE", SCALAR_FITS, 0);
    check_parse(KV_BOOL, "1", SCALAR_FITS, 1);
    check_parse(KV_BOOL, "2", SCALAR_TOO_LARGE, 0);
    int64_t x = 0;
    static const char *const exact[] = {"9007199254740993",           "9007199254740993.0",
                                        "9.007199254740993e15",       "90071992547409930e-1",
                                        "0.00009007199254740993e+20", "+9007199254740993.000"};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        CHECK_INT(scalar_parse(KV_INT64, &x, 0, exact[i], strlen(exact[i])), SCALAR_FITS);
        CHECK_INT(x, 9007199254740993);
        x = 0;
    }
    CHECK_INT(scalar_parse(KV_INT64, &x, 0, "-9223372036854775808.0", 22), SCALAR_FITS);
    CHECK_INT(x, INT64_MIN);
    CHECK_INT(scalar_parse(KV_INT64, &x, 0, "9007199254740993", 16), SCALAR_FITS);
    CHECK_INT(x, 9007199254740993);
    CHECK_INT(scalar_parse(KV_INT64, &x, 0, "-9223372036854775808", 20), SCALAR_FITS);
    CHECK_INT(x, INT64_MIN);
}

TEST(scalar_set_numbers)
{
    int64_t x = 0;
    CHECK_INT(scalar_set(KV_INT64, &x, 0, -0x1p63), SCALAR_FITS);
    CHECK_INT(x, INT64_MIN);
    CHECK_INT(scalar_set(KV_INT64, &x, 0, 0x1p63), SCALAR_TOO_LARGE);
    CHECK_INT(scalar_set(KV_INT8, &x, 0, 0.5), SCALAR_FRACTION);
    CHECK_INT(scalar_set(KV_FLOAT32, &x, 0, 3.5e38), SCALAR_TOO_LARGE);
    CHECK_INT(scalar_set(KV_FLOAT32, &x, 0, INFINITY), SCALAR_FITS);
}

TEST(scalar_not_bool_finds_the_first)
{
    CHECK_INT(scalar_not_bool((const unsigned char[]){2, 1, 3}, 3), 0);
    CHECK_INT(scalar_not_bool((const unsigned char[]){1, 0, 3}, 3), 2);
    CHECK_INT(scalar_not_bool((const unsigned char[]){1, 0, 3}, 2), -1);
}
