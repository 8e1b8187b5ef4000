/* Values that `check` finds: every bit pattern of the small types, and places that a loop by blocks
 * may miss. */
#include "tensors/tensor_stat.h"

#include <math.h>

#include "tensors/walk.h"
#include "test_tensor.h"

static tensor_values values_of(tensor_type type, const void *data, int64_t n)
{
    tensor_values v = {1, 1, 1, 1, 1, true};
    const tensor_given t = {"w", type, n, 0, data};
    own_buf file = tensor_file(&t, 1);
    own_checkpoint *c = tensor_open(&file, "m");
    CHECK_OK(tensor_check_all(&v, c, (int64_t[]){0}, 1, NULL, NULL, &e));
    return v;
}

/* One element of each pattern of a type of 1 or 2 bytes. */
static void each_pattern(tensor_type type, int bytes, int64_t nans, int64_t infs, int64_t zeros)
{
    int64_t found_nans = 0, found_infs = 0, found_zeros = 0;
    static unsigned char all[1 << 17];
    int64_t n = bytes == 1 ? 256 : 65536;
    for (int64_t i = 0; i < n; i++) {
        unsigned char one[2] = {(unsigned char)i, (unsigned char)(i >> 8)};
        memcpy(all + i * bytes, one, (size_t)bytes);
        if (bytes == 2 && i % 16 && i % 0x400 > 2 && i % 0x400 < 0x3FE)
            continue; /* alone only some: the others are among all of them */
        tensor_values v = values_of(type, one, 1);
        CHECK_INT(v.nans + v.infs + v.zero <= 1, 1);
        found_nans += bytes == 1 ? v.nans : 0;
        found_infs += v.infs;
        found_zeros += v.zero;
    }
    tensor_values v = values_of(type, all, n);
    CHECK_INT(v.nans, nans);
    CHECK_INT(v.infs, infs);
    CHECK(!v.zero);
    CHECK_INT(found_nans, bytes == 1 ? nans : 0);
    CHECK_INT(found_infs, infs);
    CHECK_INT(found_zeros, zeros);
}

TEST(tensor_check_without_elements)
{
    tensor_values v = values_of(TENSOR_F32, "", 0);
    CHECK(v.nans == 0 && v.infs == 0 && v.odd_bools == 0 && !v.zero);
}

/* Counts by ml_dtypes and NumPy, over all patterns. */
TEST(tensor_check_patterns)
{
    each_pattern(TENSOR_F8_E5M2, 1, 6, 2, 2);
    each_pattern(TENSOR_F8_E4M3, 1, 2, 0, 2);
    each_pattern(TENSOR_F8_E4M3FNUZ, 1, 1, 0, 1);
    each_pattern(TENSOR_F8_E5M2FNUZ, 1, 1, 0, 1);
    each_pattern(TENSOR_F8_E8M0, 1, 1, 0, 0);
    each_pattern(TENSOR_I8, 1, 0, 0, 1);
    each_pattern(TENSOR_F16, 2, 2046, 2, 2);
    each_pattern(TENSOR_BF16, 2, 254, 2, 2);
}

TEST(tensor_check_wide)
{
    float f[] = {1, -INFINITY, 0, NAN, INFINITY, -1};
    double d[] = {1e308, -INFINITY, NAN, -0.0, 5e-324};
    tensor_values v = values_of(TENSOR_F32, f, 6);
    CHECK_INT(v.nans, 1);
    CHECK_INT(v.infs, 2);
    v = values_of(TENSOR_C64, f, 3);
    CHECK_INT(v.nans, 1);
    CHECK_INT(v.infs, 2);
    v = values_of(TENSOR_F64, d, 5);
    CHECK_INT(v.nans, 1);
    CHECK_INT(v.infs, 1);
    CHECK(values_of(TENSOR_F64, &d[3], 1).zero);
    CHECK(!values_of(TENSOR_F64, &d[4], 1).zero);
    CHECK(!values_of(TENSOR_F64, &d[3], 0).zero);
}

/* Packed elements: one that is not zero in each place, and signs alone. */
TEST(tensor_check_packed)
{
    static const tensor_type types[] = {TENSOR_F6_E2M3, TENSOR_F6_E3M2, TENSOR_F4};
    for (int k = 0; k < 3; k++) {
        int width = k < 2 ? 6 : 4, n = k < 2 ? 8 : 4;
        for (int bit = 0; bit < width * n; bit++) {
            unsigned char data[6] = {0};
            data[bit / 8] = (unsigned char)(1 << bit % 8);
            CHECK_INT(values_of(types[k], data, n).zero, bit % width == width - 1);
        }
    }
}

TEST(tensor_check_bools)
{
    static const unsigned char good[] = {0, 1, 1}, odd[] = {0, 2, 1, 255, 3};
    CHECK_INT(values_of(TENSOR_BOOL, good, 3).odd_bools, 0);
    CHECK_INT(values_of(TENSOR_BOOL, odd, 5).odd_bools, 3);
    CHECK_INT(values_of(TENSOR_U8, odd, 5).odd_bools, 0);
    CHECK(values_of(TENSOR_BOOL, good, 1).zero);
}

/* In every piece of a large tensor, at its ends, and at all places of a vector register. */
TEST(tensor_check_places)
{
    int64_t n = 3 * WALK_PIECE + 37;
    OWN(test_free) uint16_t *x = calloc((size_t)n, 2);
    uint8_t *b = (uint8_t *)x;
    CHECK(values_of(TENSOR_BF16, x, n).zero);
    for (int64_t i = 0; i < n; i += i < 70 ? 1 : WALK_PIECE / 3 + 1) {
        x[i] = 0x7FC0;
        tensor_values v = values_of(TENSOR_BF16, x, n);
        CHECK_INT(v.nans, 1);
        CHECK(!v.zero);
        x[i] = 0x8000;
        CHECK(values_of(TENSOR_BF16, x, n).zero);
        x[i] = 0;
    }
    for (int64_t i = 0; i < 2 * n; i += 1 + i / 50) {
        b[i] = 0x80;
        CHECK_INT(values_of(TENSOR_F8_E4M3FNUZ, b, 2 * n).nans, 1);
        b[i] = 0;
        i += i > 5000 ? n / 3 : 0;
    }
    memset(b, 0x80, (size_t)n);
    CHECK_INT(values_of(TENSOR_F8_E5M2FNUZ, b, n).nans, n);
}
