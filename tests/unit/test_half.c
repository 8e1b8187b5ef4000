/* float16 and bfloat16 against definitions that are slow and plain, for every half and for many
 * float32 around every boundary. */
#include "cpu/half.h"

#include <math.h>

#include "test.h"

/* The number that a half of ebits exponent and fbits fraction bits stands for; not for nan. */
static double value_of(uint16_t h, int ebits, int fbits)
{
    int bias = (1 << (ebits - 1)) - 1;
    int exponent = (h & 0x7fff) >> fbits, fraction = h & ((1 << fbits) - 1);
    double x = exponent == 0 ? ldexp(fraction, 1 - bias - fbits)
               : exponent == (1 << ebits) - 1
                   ? INFINITY
                   : ldexp(fraction + (1 << fbits), exponent - bias - fbits);
    return h & 0x8000 ? -x : x;
}

/* The half nearest to a finite x >= 0, ties to even, by bisection over the ordered halves. What
 * lies half a unit beyond the largest one, or more, is infinity. */
static uint16_t nearest(double x, int ebits, int fbits)
{
    static double values[2][0x7f81]; /* of each format: value_of is slow */
    double *of = values[ebits == 8];
    if (of[1] == 0)
        for (uint16_t h = 0; h <= ((1 << ebits) - 1) << fbits; h++)
            of[h] = value_of(h, ebits, fbits);
    uint16_t low = 0, high = (uint16_t)(((1 << ebits) - 1) << fbits);
    while (high - low > 1) {
        uint16_t mid = (uint16_t)((low + high) / 2);
        if (of[mid] <= x)
            low = mid;
        else
            high = mid;
    }
    double below = of[low], above = of[high];
    if (isinf(above))
        above = 2 * below - of[low - 1];
    if (x - below != above - x)
        return x - below < above - x ? low : high;
    return low & 1 ? high : low;
}

TEST(half_widen_every_half_and_back)
{
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t half = (uint16_t)h, back;
        float soft, hard, brain;
        half_widen_f16_soft(&soft, &half, 1);
        half_widen_f16(&hard, &half, 1);
        half_widen_bf16(&brain, &half, 1);
        half_narrow_f16(&back, &hard, 1);
        CHECK_INT(back, (h & 0x7fff) > 0x7c00 ? h | 0x200 : h);
        half_narrow_bf16(&back, &brain, 1);
        CHECK_INT(back, (h & 0x7fff) > 0x7f80 ? h | 0x40 : h);
        CHECK_INT(bits_of(soft), bits_of(hard));
        CHECK_INT(bits_of(brain), h << 16);
        if ((h & 0x7fff) <= 0x7c00)
            CHECK(soft == value_of(half, 5, 10) && !signbit(soft) == !(h & 0x8000));
        else
            CHECK(isnan(soft));
    }
}

/* One float32 three ways. */
static void check_narrow(uint32_t u)
{
    float x = float_of(u);
    uint16_t soft, hard, brain, sign = (uint16_t)(u >> 16 & 0x8000);
    half_narrow_f16_soft(&soft, &x, 1);
    half_narrow_f16(&hard, &x, 1);
    half_narrow_bf16(&brain, &x, 1);
    CHECK_INT(soft, hard);
    if (isnan(x)) {
        CHECK((soft & 0x7fff) > 0x7c00 && (brain & 0x7fff) > 0x7f80);
    } else if (isinf(x)) {
        CHECK_INT(soft, sign | 0x7c00);
        CHECK_INT(brain, sign | 0x7f80);
    } else {
        CHECK_INT(soft, sign | nearest(fabs(x), 5, 10));
        CHECK_INT(brain, sign | nearest(fabs(x), 8, 7));
    }
}

TEST(half_narrow_around_every_boundary)
{
    /* Every half, every tie between neighbours, and what lies next to either. */
    for (uint32_t h = 0; h < 0x7c00; h++) {
        uint16_t half = (uint16_t)h;
        float x;
        half_widen_f16_soft(&x, &half, 1);
        double next = h == 0x7bff ? 65536 : value_of((uint16_t)(half + 1), 5, 10);
        uint32_t tie = bits_of((float)((x + next) / 2));
        for (uint32_t d = 0; d < 3; d++) {
            check_narrow(tie + d - 1);
            check_narrow((tie + d - 1) | 0x80000000);
            if (h)
                check_narrow(bits_of(x) + d - 1);
        }
    }
    for (uint32_t h = 1; h < 0x7f80; h++) {
        check_narrow(h << 16);
        for (uint32_t d = 0; d < 3; d++)
            check_narrow((h << 16) + 0x8000 + d - 1);
    }
    uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000,
                          0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0x7fc00000, 0xffffffff};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        check_narrow(special[i]);
    for (uint64_t u = 0; u < 0x100000000; u += 65521 * 7)
        check_narrow((uint32_t)u);
}

/* A vector, and what is behind whole ones, see a number that has no finite code wherever it stands.
 */
TEST(half_finite_at_every_place)
{
    enum { MOST = 67 };
    static const float not_finite[] = {INFINITY, -INFINITY, NAN, 3.4e38f, -3.4e38f};
    float x[MOST];
    uint16_t codes[MOST], others[MOST];
    for (int i = 0; i < MOST; i++)
        x[i] = i % 2 ? 0x1.fep127f : -0x1.fep127f;
    for (int n = 1; n <= MOST; n++) {
        CHECK(half_narrow_bf16_finite(codes, x, n));
        for (int at = 0; at < n; at++) {
            float was = x[at];
            x[at] = not_finite[(n + at) % 5];
            CHECK(!half_narrow_bf16_finite(codes, x, n));
            half_narrow_bf16(others, x, n);
            CHECK(memcmp(codes, others, (size_t)n * sizeof *codes) == 0);
            x[at] = was;
        }
    }
}
