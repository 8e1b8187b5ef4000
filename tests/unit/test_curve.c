/* tanh, sin, cos, asin and acos against the C library's in long double, in units in the last place,
 * at numbers drawn from every size and at the edges. */
#include "vm/curve.h"

#include <float.h>
#include <stdbool.h>

#include "base/philox.h"
#include "test.h"

/* How many units in the last of so many places x is away from the true value. */
static double units_off(double x, long double truth, int places)
{
    int exponent;
    frexpl(truth, &exponent);
    return (double)fabsl(((long double)x - truth) / ldexpl(1, exponent - places));
}

/* The i-th number, of any sign and size up to 2 ** high. */
static double drawn(uint64_t i, int high)
{
    philox w = philox_at(7, PHILOX_FUNCTIONS, 0, i);
    double unit = (double)w.word[0] / 0x1p32 + (double)w.word[1] / 0x1p64;
    double size = w.word[2] % 2 ? 1 : ldexp(1, -(int)(w.word[2] % 64));
    return (w.word[3] % 2 ? -1 : 1) * unit * size * ldexp(1, high);
}

typedef struct against {
    const char *name;
    double (*ours)(double);
    float (*single)(float);
    long double (*theirs)(long double);
    int high;
    double most, most_single; /* units */
} against;

static const against functions[] = {
    {"tanh", curve_tanh, curve_tanhf, tanhl, 5, 3, 3},
    {"sin", curve_sin, curve_sinf, sinl, 17, 1, 1.5},
    {"cos", curve_cos, curve_cosf, cosl, 17, 1, 1.5},
    {"asin", curve_asin, curve_asinf, asinl, 0, 3, 3},
    {"acos", curve_acos, curve_acosf, acosl, 0, 3, 3},
};

enum { FUNCTIONS = sizeof functions / sizeof *functions, DRAWS = 33000 };

TEST(curve_is_exact)
{
    if (LDBL_MANT_DIG < 64)
        test_skip("long double has no more digits than double");
    for (int f = 0; f < FUNCTIONS; f++) {
        const against *a = &functions[f];
        double most = 0, most_single = 0;
        for (uint64_t i = 0; i < 2 * (uint64_t)test_random(DRAWS); i++) {
            double x = drawn(i, a->high), off = units_off(a->ours(x), a->theirs(x), DBL_MANT_DIG);
            float y = (float)x;
            double off_single = units_off(a->single(y), a->theirs(y), FLT_MANT_DIG);
            most = off > most ? off : most;
            most_single = off_single > most_single ? off_single : most_single;
        }
        bool exact = most < a->most && most_single < a->most_single;
        if (!exact)
            printf("# %s is %g units off, of float32 %g\n", a->name, most, most_single);
        CHECK(exact);
    }
}

TEST(curve_near_quarter_turns)
{
    if (LDBL_MANT_DIG < 64)
        test_skip("long double has no more digits than double");
    /* x87 computes these with a pi of 66 digits, so only what it is good for */
    for (int64_t k = 1; k < 1000; k++) {
        double x = (double)k * 1.5707963267948966;
        CHECK(units_off(curve_any_sin(x), sinl((long double)x), DBL_MANT_DIG) < 2);
        CHECK(units_off(curve_any_cos(x), cosl((long double)x), DBL_MANT_DIG) < 2);
    }
}

TEST(curve_edges)
{
    CHECK(isnan(curve_tanh(NAN)) && isnan(curve_any_sin(NAN)) && isnan(curve_any_cos(INFINITY)));
    CHECK(isnan(curve_asin(1.5)) && isnan(curve_acos(-1.5)) && isnan(curve_acos(NAN)));
    CHECK(curve_tanh(INFINITY) == 1 && curve_tanh(-INFINITY) == -1);
    CHECK(curve_tanh(DBL_TRUE_MIN) == DBL_TRUE_MIN && curve_sin(-DBL_MIN) == -DBL_MIN);
    CHECK(signbit(curve_tanh(-0.0)) && signbit(curve_sin(-0.0)) && signbit(curve_asin(-0.0)));
    CHECK(signbit(curve_tanhf(-0.0f)) && signbit(curve_sinf(-0.0f)) && signbit(curve_asinf(-0.0f)));
    CHECK(isnan(curve_tanhf(NAN)) && isnan(curve_any_cosf(NAN)) && isnan(curve_acosf(2)));
    CHECK(curve_tanhf(INFINITY) == 1 && curve_acosf(1) == 0 && curve_acosf(-1) == acosf(-1));
    CHECK(curve_any_sinf(1e30f) == (float)sin((double)1e30f));
    CHECK(curve_acos(1) == 0 && curve_acos(-1) == acos(-1) && curve_asin(1) == asin(1));
    CHECK(curve_any_sin(1e22) == sin(1e22) && curve_any_cos(-1e300) == cos(-1e300));
}
