/* element: every number of the 16-bit formats, and what fits where. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "io/element.h"

TEST(element_halves)
{
    static const kv_dtype dtypes[] = {KV_FLOAT16, KV_BFLOAT16};
    for (int k = 0; k < 2; k++) {
        for (uint32_t bits = 0; bits < 65536; bits++) {
            uint16_t in = (uint16_t)bits, out = 0, text_out = 0;
            double x = element_float(dtypes[k], &in, 0);
            CHECK_INT(element_set(dtypes[k], &out, 0, x), ELEMENT_FITS);
            char text[NUM_TEXT_MAX];
            int n = element_text(text, dtypes[k], &in, 0);
            CHECK_INT(element_parse(dtypes[k], &text_out, 0, text, (size_t)n), ELEMENT_FITS);
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

/* What becomes of text as an element of dtype: how it fits, and the number. */
static void check_parse(kv_dtype dtype, const char *text, element_fit fit, double want)
{
    int64_t room = 0;
    CHECK_INT(element_parse(dtype, &room, 0, text, strlen(text)), fit);
    if (fit == ELEMENT_FITS) {
        double x = element_float(dtype, &room, 0);
        CHECK(memcmp(&x, &want, sizeof x) == 0 || (isnan(x) && isnan(want)));
    }
}

TEST(element_parse_floats)
{
    check_parse(KV_FLOAT32, "1.5", ELEMENT_FITS, 1.5);
    check_parse(KV_FLOAT32, "+2", ELEMENT_FITS, 2);
    check_parse(KV_FLOAT32, ".3e1", ELEMENT_FITS, 3);
    check_parse(KV_FLOAT32, "-0", ELEMENT_FITS, -0.0);
    check_parse(KV_FLOAT32, "NaN", ELEMENT_FITS, NAN);
    check_parse(KV_FLOAT32, "-inf", ELEMENT_FITS, -INFINITY);
    check_parse(KV_FLOAT32, "true", ELEMENT_FITS, 1);
    check_parse(KV_FLOAT32, "False", ELEMENT_FITS, 0);
    check_parse(KV_FLOAT32, "1e39", ELEMENT_TOO_LARGE, 0);
    check_parse(KV_FLOAT64, "1e39", ELEMENT_FITS, 1e39);
    check_parse(KV_FLOAT64, "-1e999", ELEMENT_TOO_LARGE, 0);
    check_parse(KV_FLOAT16, "65519.9", ELEMENT_FITS, 65504);
    check_parse(KV_FLOAT16, "65520", ELEMENT_TOO_LARGE, 0);
    check_parse(KV_BFLOAT16, "1.00390625", ELEMENT_FITS, 1);
    check_parse(KV_BFLOAT16, "1.00390626", ELEMENT_FITS, 1.0078125);
    check_parse(KV_FLOAT32, "", ELEMENT_NO_NUMBER, 0);
    check_parse(KV_FLOAT32, "1 ", ELEMENT_NO_NUMBER, 0);
    check_parse(KV_FLOAT32, "1.5x", ELEMENT_NO_NUMBER, 0);
    check_parse(KV_FLOAT32, "infinitely", ELEMENT_NO_NUMBER, 0);
    check_parse(KV_FLOAT32, "truex", ELEMENT_NO_NUMBER, 0);
}

TEST(element_parse_integers)
{
    check_parse(KV_INT8, "127", ELEMENT_FITS, 127);
    check_parse(KV_INT8, "-128", ELEMENT_FITS, -128);
    check_parse(KV_INT8, "128", ELEMENT_TOO_LARGE, 0);
    check_parse(KV_INT8, "-129", ELEMENT_TOO_LARGE, 0);
    check_parse(KV_INT8, "300", ELEMENT_TOO_LARGE, 0);
    check_parse(KV_UINT8, "255", ELEMENT_FITS, 255);
    check_parse(KV_UINT8, "-1", ELEMENT_TOO_LARGE, 0);
    check_parse(KV_UINT8, "256", ELEMENT_TOO_LARGE, 0);
    check_parse(KV_INT32, "2147483647", ELEMENT_FITS, 2147483647);
    check_parse(KV_INT32, "2147483648", ELEMENT_TOO_LARGE, 0);
    check_parse(KV_INT32, "3.0", ELEMENT_FITS, 3);
    check_parse(KV_INT32, "1e3", ELEMENT_FITS, 1000);
    check_parse(KV_INT32, "2.5", ELEMENT_FRACTION, 0);
    check_parse(KV_INT32, "nan", ELEMENT_FRACTION, 0);
    check_parse(KV_INT32, "inf", ELEMENT_TOO_LARGE, 0);
    check_parse(KV_INT32, "1e999", ELEMENT_TOO_LARGE, 0);
    check_parse(KV_INT64, "1e19", ELEMENT_TOO_LARGE, 0);
    check_parse(KV_INT64, "9223372036854775808", ELEMENT_TOO_LARGE, 0);
    check_parse(KV_BOOL, "true", ELEMENT_FITS, 1);
    check_parse(KV_BOOL, "FALSE", ELEMENT_FITS, 0);
    check_parse(KV_BOOL, "1", ELEMENT_FITS, 1);
    check_parse(KV_BOOL, "2", ELEMENT_TOO_LARGE, 0);
    int64_t x = 0;
    CHECK_INT(element_parse(KV_INT64, &x, 0, "9007199254740993", 16), ELEMENT_FITS);
    CHECK_INT(x, 9007199254740993);
    CHECK_INT(element_parse(KV_INT64, &x, 0, "-9223372036854775808", 20), ELEMENT_FITS);
    CHECK_INT(x, INT64_MIN);
}

TEST(element_set_numbers)
{
    int64_t x = 0;
    CHECK_INT(element_set(KV_INT64, &x, 0, -0x1p63), ELEMENT_FITS);
    CHECK_INT(x, INT64_MIN);
    CHECK_INT(element_set(KV_INT64, &x, 0, 0x1p63), ELEMENT_TOO_LARGE);
    CHECK_INT(element_set(KV_INT8, &x, 0, 0.5), ELEMENT_FRACTION);
    CHECK_INT(element_set(KV_FLOAT32, &x, 0, 3.5e38), ELEMENT_TOO_LARGE);
    CHECK_INT(element_set(KV_FLOAT32, &x, 0, INFINITY), ELEMENT_FITS);
}
