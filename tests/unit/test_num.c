/* num: numbers as text and back, against exact arithmetic and the C library. */
#include "test_checkpoint.h"

#include <locale.h>
#include <math.h>

#include "base/num.h"
#include "base/num_power.h"

static uint64_t random_state = 88172645463325252u;

static uint64_t random64(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static double from_bits64(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float from_bits32(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The finite number with these 16 bits, counted up from 0; both formats by their definition. */
static double half_value(int bits, num_width width)
{
    int fraction_bits = width == NUM_BINARY16 ? 10 : 7, min_exp = num_formats[width].min_exp;
    int exponent = bits >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
    return exponent ? ldexp(fraction + (1 << fraction_bits), min_exp + exponent - 1)
                    : ldexp(fraction, min_exp);
}

static double parse(const char *text, num_width width)
{
    double x = -1;
    CHECK_INT(num_parse(text, strlen(text), width, &x, NULL), strlen(text));
    return x;
}

static int same(double x, double y)
{
    return memcmp(&x, &y, sizeof x) == 0;
}

/* ---- Large natural numbers ------------------------------------------------------------------- */

/* The sum of limb[i] * 2^(32 i) for i < n, at most 8192 bits; limb[n - 1] is not 0. */
typedef struct natural {
    int n;
    uint32_t limb[256];
} natural;

static void natural_set(natural *b, uint64_t x)
{
    b->n = 0;
    for (; x; x >>= 32)
        b->limb[b->n++] = (uint32_t)x;
}

static void natural_mul_add(natural *b, uint32_t factor, uint32_t term)
{
    uint64_t carry = term;
    for (int i = 0; i < b->n; i++) {
        carry += (uint64_t)b->limb[i] * factor;
        b->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry)
        b->limb[b->n++] = (uint32_t)carry;
}

static void natural_mul_pow5(natural *b, int exponent)
{
    const uint32_t pow5_13 = 1220703125; /* the largest power of 5 in 32 bits */
    for (; exponent >= 13; exponent -= 13)
        natural_mul_add(b, pow5_13, 0);
    uint32_t rest = 1;
    for (; exponent > 0; exponent--)
        rest *= 5;
    natural_mul_add(b, rest, 0);
}

static void natural_shift(natural *b, int bits)
{
    if (b->n == 0)
        return;
    int limbs = bits / 32;
    memmove(b->limb + limbs, b->limb, (size_t)b->n * sizeof *b->limb);
    memset(b->limb, 0, (size_t)limbs * sizeof *b->limb);
    b->n += limbs;
    if (bits % 32)
        natural_mul_add(b, (uint32_t)1 << bits % 32, 0);
}

static uint32_t natural_div(natural *b, uint32_t divisor)
{
    uint64_t rest = 0;
    for (int i = b->n - 1; i >= 0; i--) {
        rest = rest << 32 | b->limb[i];
        b->limb[i] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    while (b->n > 0 && b->limb[b->n - 1] == 0)
        b->n--;
    return (uint32_t)rest;
}

static int natural_compare(const natural *a, const natural *b)
{
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    for (int i = a->n - 1; i >= 0; i--) {
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i] ? -1 : 1;
    }
    return 0;
}

/* b = hi * 2^64 + lo */
static void set128(natural *b, uint64_t hi, uint64_t lo)
{
    natural_set(b, hi);
    for (int bits = 48; bits >= 0; bits -= 16)
        natural_mul_add(b, 65536, (uint32_t)(lo >> bits & 65535));
}

/* Whether g * 2^(floor(log2(10^k)) - 127) >= 10^k, by large integers. */
static int reaches_power(uint64_t hi, uint64_t lo, int k)
{
    natural g, power;
    set128(&g, hi, lo);
    natural_set(&power, 1);
    natural_mul_pow5(k < 0 ? &g : &power, k < 0 ? -k : k);
    int shift = num_log2_pow10(k) - 127 - k;
    natural_shift(shift >= 0 ? &g : &power, shift >= 0 ? shift : -shift);
    return natural_compare(&g, &power) >= 0;
}

TEST(num_powers_are_exact)
{
    for (int k = NUM_POWER_MIN; k <= NUM_POWER_MAX; k++) {
        const num_power *g = &num_powers[k - NUM_POWER_MIN];
        CHECK(g->hi >> 63);
        CHECK(reaches_power(g->hi, g->lo, k));
        CHECK(!reaches_power(g->hi - (g->lo == 0), g->lo - 1, k));
    }
}

/* The fewest digits that read back as x, tried one after the other with the C library. */
static int fewest_digits(double x, int is_float)
{
    char text[64];
    for (int n = 1; n < 17; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, x);
        if (is_float ? strtof(text, NULL) == (float)x : strtod(text, NULL) == x)
            return n;
    }
    return 17;
}

/* x as digits reads back as x, is shortest, and of the shortest the nearest. */
static void check_shortest(double x, int is_float)
{
    num_width width = is_float ? NUM_BINARY32 : NUM_BINARY64;
    num_digits d = num_shortest(x, width);
    char text[64], nearest[64];
    int size = snprintf(text, sizeof text, "%llue%d", (unsigned long long)d.digits, d.exp10);
    double back = is_float ? (double)strtof(text, NULL) : strtod(text, NULL);
    int fewest = fewest_digits(x, is_float);
    if (back != fabs(x) || d.n > fewest || d.digits % 10 == 0)
        printf("# %a: %s has %d digits, the fewest are %d\n", x, text, d.n, fewest);
    CHECK(back == fabs(x) && d.n <= fewest && d.digits % 10 != 0);
    CHECK_INT(d.n, size - (int)(strchr(text, 'e') ? strlen(strchr(text, 'e')) : 0));
    /* Below a power of two the interval is not symmetric, so the nearest need not be in it. */
    int exponent;
    if (frexp(fabs(x), &exponent) != 0.5) {
        char *e, digits[32];
        snprintf(nearest, sizeof nearest, "%.*e", d.n - 1, fabs(x));
        e = strchr(nearest, 'e');
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)d.digits);
        CHECK(nearest[0] == digits[0] && (d.n == 1 || !strncmp(nearest + 2, digits + 1, d.n - 1)));
        CHECK_INT(strtol(e + 1, NULL, 10), d.exp10 + d.n - 1);
    }
    CHECK(same(parse(text, width), fabs(x)));
}

TEST(num_shortest_binary64)
{
    for (int64_t i = test_random(6000); i > 0; i--) {
        double x = from_bits64(random64());
        if (isfinite(x) && x != 0)
            check_shortest(x, 0);
        check_shortest((double)(random64() % 100000 + 1) / 1000, 0);
        check_shortest((double)(random64() >> (random64() & 63) | 1), 0);
    }
    for (int exp = -1074; exp < 1024; exp++) {
        double x = ldexp(1, exp);
        check_shortest(x, 0);
        check_shortest(nextafter(x, INFINITY), 0);
        if (exp > -1074)
            check_shortest(nextafter(x, 0), 0);
    }
    for (int i = 1; i < 2000; i++)
        check_shortest(i * 0x1p-1074, 0);
}

TEST(num_shortest_binary32)
{
    for (int64_t i = 2 * test_random(33000); i > 0; i--) {
        float x = from_bits32((uint32_t)random64());
        if (isfinite(x) && x != 0)
            check_shortest(x, 1);
    }
    for (int exp = -149; exp < 128; exp++) {
        float x = ldexpf(1, exp);
        check_shortest(x, 1);
        check_shortest(nextafterf(x, INFINITY), 1);
        if (exp > -149)
            check_shortest(nextafterf(x, 0), 1);
    }
    for (int i = 1; i < 5000; i++)
        check_shortest(ldexp(i, -149), 1);
}

TEST(num_many_binary32)
{
    for (int64_t i = 40 * test_random(33000); i > 0; i--) {
        float x = from_bits32((uint32_t)random64()), back;
        if (!isfinite(x))
            continue;
        char text[NUM_TEXT_MAX];
        num_repr(text, x, NUM_BINARY32);
        back = (float)parse(text, NUM_BINARY32);
        CHECK(memcmp(&x, &back, sizeof x) == 0);
    }
}

/* Every number of a 16-bit format: shortest, and its neighbours' half-way points. */
static void check_halves(num_width width)
{
    int end = width == NUM_BINARY16 ? 0x7C00 : 0x7F80;
    for (int i = 0; i < end; i++) {
        double x = half_value(i, width), next = half_value(i + 1, width);
        char text[120];
        num_repr(text, x, width);
        CHECK(same(parse(text, width), x));
        num_repr(text, -x, width);
        CHECK(same(parse(text, width), -x));
        if (i > 0) {
            /* no shorter text names x: none lies between the half-way points */
            num_digits d = num_shortest(x, width);
            double low = (x + half_value(i - 1, width)) / 2, high = (x + next) / 2;
            for (int n = 1; n < d.n; n++) {
                snprintf(text, sizeof text, "%.*e", n - 1, x);
                double y = strtod(text, NULL);
                CHECK(y < low || y > high || (i & 1 && (y == low || y == high)));
            }
        }
        double middle = (x + next) / 2;
        bool over;
        double big = i + 1 == end ? INFINITY : next;
        CHECK(same(num_narrow(-middle, width, &over), i & 1 ? -big : -x));
        CHECK_INT(over, i + 1 == end && i & 1);
        CHECK(same(num_narrow(nextafter(middle, 0), width, &over), x) && !over);
        CHECK(same(num_narrow(nextafter(middle, INFINITY), width, NULL), big));
        CHECK(same(num_narrow(x, width, NULL), x));
        snprintf(text, sizeof text, "%.100e", middle);
        CHECK(same(parse(text, width), i & 1 ? big : x));
        snprintf(text, sizeof text, "%.100e", nextafter(middle, 0));
        CHECK(same(parse(text, width), x));
        snprintf(text, sizeof text, "%.100e", nextafter(middle, INFINITY));
        double y;
        CHECK(num_parse(text, strlen(text), width, &y, &over) == strlen(text) && same(y, big));
        CHECK_INT(over, i + 1 == end);
        if (i % 16)
            continue;
        /* a thousand digits behind the half-way point still count */
        OWN(test_free) char *longer = malloc(2000);
        int n = snprintf(longer, 1000, "%.900f", middle);
        memset(longer + n, '0', 900);
        strcpy(longer + n + 900, "1");
        CHECK(same(parse(longer, width), middle < 1e-300 ? x : big));
    }
}

TEST(num_every_half)
{
    check_halves(NUM_BINARY16);
    check_halves(NUM_BFLOAT16);
}

/* c * 2^q with all its digits: 123e-4. */
static void exact_text(char *out, size_t size, uint64_t c, int q)
{
    natural b;
    natural_set(&b, c);
    if (q < 0)
        natural_mul_pow5(&b, -q);
    else
        natural_shift(&b, q);
    char digits[1300], *p = digits + sizeof digits;
    *--p = '\0';
    while (b.n > 0)
        *--p = (char)('0' + natural_div(&b, 10));
    snprintf(out, size, "%se%d", p, q < 0 ? q : 0);
}

TEST(num_halfway_binary64)
{
    static char text[1400], longer[1500];
    for (int64_t i = test_random(2000); i > 0; i--) {
        uint64_t bits = random64() >> 1;
        if (i % 4 == 0)
            bits &= (1ull << 54) - 1; /* subnormal */
        double x = from_bits64(bits), next = from_bits64(bits + 1);
        if (!isfinite(x) || !isfinite(next))
            continue;
        int exponent = (int)(bits >> 52);
        uint64_t c = (bits & ((1ull << 52) - 1)) | (uint64_t)(exponent > 0) << 52;
        exact_text(text, sizeof text, c * 2 + 1, (exponent ? exponent : 1) - 1076);
        CHECK(same(parse(text, NUM_BINARY64), bits & 1 ? next : x));
        CHECK(same(parse(text, NUM_BINARY64), strtod(text, NULL)));
        char *tail = strchr(text, 'e');
        snprintf(longer, sizeof longer, "%.*s.0000000000000000001%s", (int)(tail - text), text,
                 tail);
        CHECK(same(parse(longer, NUM_BINARY64), next));
        /* a few digits of it, which lie near but not on the point */
        int n = tail - text > 25 ? 25 : (int)(tail - text);
        snprintf(longer, sizeof longer, "%.*se%d", n, text,
                 (int)strtol(tail + 1, NULL, 10) + (int)(tail - text) - n);
        CHECK(same(parse(longer, NUM_BINARY64), strtod(longer, NULL)));
    }
}

TEST(num_narrow_binary32)
{
    for (int64_t i = 5 * test_random(33000); i > 0; i--) {
        double x = from_bits64(random64());
        if (i & 1)
            x = from_bits32((uint32_t)random64()) * (1 + ldexp((double)(random64() % 9), -26));
        bool over;
        if (isnan(x))
            continue;
        CHECK(same(num_narrow(x, NUM_BINARY32, &over), (float)x));
        CHECK_INT(over, isfinite(x) && isinf((float)x));
        CHECK(same(num_narrow(x, NUM_BINARY64, &over), x));
    }
}

TEST(num_parse_as_strtod)
{
    char text[100];
    for (int64_t i = 5 * test_random(33000); i > 0; i--) {
        int digits = 1 + (int)(random64() % 30), point = (int)(random64() % 31), n = 0;
        for (int j = 0; j < digits; j++) {
            if (j == point)
                text[n++] = '.';
            text[n++] = (char)('0' + random64() % 10);
        }
        snprintf(text + n, sizeof text - (size_t)n, "e%d", (int)(random64() % 700) - 350);
        CHECK(same(parse(text, NUM_BINARY64), strtod(text, NULL)));
        double want = strtof(text, NULL);
        CHECK(same(parse(text, NUM_BINARY32), want));
        snprintf(text + n, sizeof text - (size_t)n, "e%d", (int)(random64() % 30) - 25);
        CHECK(same(parse(text, NUM_BINARY32), strtof(text, NULL)));
        CHECK(same(parse(text, NUM_BINARY64), strtod(text, NULL)));
    }
}

/* Checks the number that num_parse reads, the length of its text, and if it is too large. */
static void check_parse(const char *text, size_t want_n, double want, int want_over)
{
    double x = -1;
    bool over = true;
    size_t n = num_parse(text, strlen(text), NUM_BINARY64, &x, &over);
    CHECK_INT(n, want_n);
    if (n == 0)
        return;
    CHECK((isnan(x) && isnan(want)) || same(x, want));
    CHECK_INT(over, want_over);
}

TEST(num_parse_forms)
{
    check_parse("0", 1, 0, 0);
    check_parse("-0", 2, -0.0, 0);
    check_parse("-0.000e5", 8, -0.0, 0);
    check_parse("+2", 2, 2, 0);
    check_parse(".3e1", 4, 3, 0);
    check_parse("3.", 2, 3, 0);
    check_parse("3.e2", 4, 300, 0);
    check_parse("3e", 1, 3, 0);
    check_parse("3e+", 1, 3, 0);
    check_parse("3E-1x", 4, 0.3, 0);
    check_parse("1.2.3", 3, 1.2, 0);
    check_parse("1e999", 5, INFINITY, 1);
    check_parse("-1e999", 6, -INFINITY, 1);
    check_parse("1e-999", 6, 0, 0);
    check_parse("1e999999999999999999999999", 26, INFINITY, 1);
    check_parse("0e999999999999999999999999", 26, 0, 0);
    check_parse("1e-999999999999999999999999", 27, 0, 0);
    check_parse("1.7976931348623157e308", 22, 1.7976931348623157e308, 0);
    check_parse("1.7976931348623158e308", 22, 1.7976931348623157e308, 0);
    check_parse("1.7976931348623159e308", 22, INFINITY, 1);
    check_parse("4.9e-324", 8, 0x1p-1074, 0);
    check_parse("2.4703282292062328e-324", 23, 0x1p-1074, 0);
    check_parse("2.4703282292062327e-324", 23, 0, 0);
    check_parse("123456789012345678901234567890", 30, 123456789012345678901234567890.0, 0);
    check_parse("0.000000000000000000000000000000000000001", 41, 1e-39, 0);
    check_parse("nan", 3, NAN, 0);
    check_parse("-NaN", 4, NAN, 0);
    double nan;
    CHECK_INT(num_parse("-nan", 4, NUM_BINARY32, &nan, NULL), 4);
    CHECK(isnan(nan) && !signbit(nan));
    check_parse("inf", 3, INFINITY, 0);
    check_parse("-Infinity", 9, -INFINITY, 0);
    check_parse("infinit", 3, INFINITY, 0);
    check_parse("", 0, 0, 0);
    check_parse("-", 0, 0, 0);
    check_parse(".", 0, 0, 0);
    check_parse("-.e1", 0, 0, 0);
    check_parse("e1", 0, 0, 0);
    check_parse(" 1", 0, 0, 0);
    check_parse("in", 0, 0, 0);
    check_parse("0x10", 1, 0, 0);
    double x;
    CHECK_INT(num_parse("12345", 3, NUM_BINARY64, &x, NULL), 3);
    CHECK(x == 123);
}

TEST(num_parse_long_zeros)
{
    /* 10,000 zeros before and behind, made good by the exponent */
    static char text[20100];
    memset(text, '0', 20000);
    text[0] = '0';
    text[1] = '.';
    strcpy(text + 10000, "15e9999");
    CHECK(same(parse(text, NUM_BINARY64), 1.5));
    memset(text, '0', 20000);
    text[0] = '7';
    strcpy(text + 10001, "e-10000");
    CHECK(same(parse(text, NUM_BINARY64), 7));
}

/* num_repr of a double, compared with what Python prints. */
static void check_repr(double x, num_width width, const char *want)
{
    char text[NUM_TEXT_MAX];
    int n = num_repr(text, x, width);
    CHECK_TEXT(text, want);
    CHECK_INT(n, strlen(want));
}

TEST(num_repr_as_python)
{
    check_repr(0, NUM_BINARY64, "0.0");
    check_repr(-0.0, NUM_BINARY64, "-0.0");
    check_repr(1, NUM_BINARY64, "1.0");
    check_repr(-2.5, NUM_BINARY64, "-2.5");
    check_repr(0.1, NUM_BINARY64, "0.1");
    check_repr(0.1 + 0.2, NUM_BINARY64, "0.30000000000000004");
    check_repr(1e15, NUM_BINARY64, "1000000000000000.0");
    check_repr(123456789012345680, NUM_BINARY64, "1.2345678901234568e+17");
    check_repr(9999999999999998, NUM_BINARY64, "9999999999999998.0");
    check_repr(1e16, NUM_BINARY64, "1e+16");
    check_repr(0.0001, NUM_BINARY64, "0.0001");
    check_repr(0.00001, NUM_BINARY64, "1e-05");
    check_repr(1.5e-7, NUM_BINARY64, "1.5e-07");
    check_repr(1e100, NUM_BINARY64, "1e+100");
    check_repr(-1.25e-100, NUM_BINARY64, "-1.25e-100");
    check_repr(0x1p-1074, NUM_BINARY64, "5e-324");
    check_repr(0x1p-44, NUM_BINARY64, "5.684341886080802e-14");
    check_repr(2e-44, NUM_BINARY64, "2e-44");
    check_repr(9007199254740993.0, NUM_BINARY64, "9007199254740992.0");
    check_repr(1.7976931348623157e308, NUM_BINARY64, "1.7976931348623157e+308");
    check_repr(-1.7976931348623157e-308, NUM_BINARY64, "-1.7976931348623155e-308");
    check_repr(NAN, NUM_BINARY64, "nan");
    check_repr(-NAN, NUM_BINARY64, "nan");
    check_repr(INFINITY, NUM_BINARY64, "inf");
    check_repr(-INFINITY, NUM_BINARY64, "-inf");
    check_repr(0.1f, NUM_BINARY32, "0.1");
    check_repr(1 / 3.0f, NUM_BINARY32, "0.33333334");
    check_repr(16777216, NUM_BINARY32, "16777216.0");
    check_repr(3.4028234663852886e38, NUM_BINARY32, "3.4028235e+38");
    check_repr(0x1p-149, NUM_BINARY32, "1e-45");
    check_repr(65504, NUM_BINARY16, "65500.0");
    check_repr(0x1p-24, NUM_BINARY16, "6e-08");
    check_repr(0.0999755859375, NUM_BINARY16, "0.1");
    check_repr(0.10009765625, NUM_BFLOAT16, "0.1");
    check_repr(3.3895313892515355e38, NUM_BFLOAT16, "3.39e+38");

    char text[NUM_TEXT_MAX];
    CHECK_INT(num_plain(text, 3, NUM_BINARY32), 1);
    CHECK_TEXT(text, "3");
    num_plain(text, -0.0, NUM_BINARY32);
    CHECK_TEXT(text, "-0.0");
    num_plain(text, 0, NUM_BINARY32);
    CHECK_TEXT(text, "0");
    num_plain(text, 1e16, NUM_BINARY64);
    CHECK_TEXT(text, "1e+16");
    num_plain(text, 1200, NUM_BINARY64);
    CHECK_TEXT(text, "1200");
    num_plain(text, 0.25, NUM_BINARY16);
    CHECK_TEXT(text, "0.25");
}

TEST(num_integers)
{
    static const struct {
        const char *text;
        size_t n;
        int64_t x;
        int over;
    } cases[] = {
        {"0", 1, 0, 0},                                {"-0", 2, 0, 0},
        {"+12", 3, 12, 0},                             {"12.5", 2, 12, 0},
        {"9223372036854775807", 19, INT64_MAX, 0},     {"9223372036854775808", 19, INT64_MAX, 1},
        {"-9223372036854775808", 20, INT64_MIN, 0},    {"-9223372036854775809", 20, INT64_MIN, 1},
        {"99999999999999999999999", 23, INT64_MAX, 1}, {"000000000000000000000000007", 27, 7, 0},
        {"", 0, 0, 0},                                 {"-", 0, 0, 0},
        {"x", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t x = 0;
        bool over = false;
        CHECK_INT(num_parse_int(cases[i].text, strlen(cases[i].text), &x, &over), cases[i].n);
        CHECK_INT(x, cases[i].x);
        CHECK_INT(over, cases[i].over);
    }
    for (int64_t i = 2 * test_random(33000); i > 0; i--) {
        int64_t x = (int64_t)(random64() >> (random64() & 63)), back;
        x = i & 1 ? x : (int64_t) - (uint64_t)x;
        char text[NUM_TEXT_MAX], want[NUM_TEXT_MAX];
        int n = num_int(text, x);
        snprintf(want, sizeof want, "%lld", (long long)x);
        CHECK_TEXT(text, want);
        CHECK_INT(num_parse_int(text, (size_t)n, &back, NULL), n);
        CHECK_INT(back, x);
    }
    char text[NUM_TEXT_MAX];
    num_int(text, INT64_MIN);
    CHECK_TEXT(text, "-9223372036854775808");
}

TEST(num_fixed_as_printf)
{
    static const char how[] = "feg";
    char got[420], want[420], fmt[] = "%.*f";
    for (int64_t i = test_random(33000); i > 0; i--) {
        double x = from_bits64(random64());
        if (i % 3 == 1)
            x = (double)(int64_t)(random64() % 2000001 - 1000000) / 1024;
        if (i % 3 == 2)
            x = ldexp((double)(random64() % 4096), -(int)(random64() % 20));
        if (isnan(x) || fabs(x) > 1e300)
            continue;
        int precision = (int)(random64() % 61);
        if (i & 1)
            precision %= 10;
        char kind = how[random64() % 3];
        fmt[3] = kind;
        int n = snprintf(want, sizeof want, fmt, precision, x);
        CHECK_INT(num_fixed(got, sizeof got, x, precision, kind), n);
        CHECK_TEXT(got, want);
    }
    static const double ties[] = {0,        -0.0,  0.5,       1.5,    2.5,   -0.5,
                                  0.25,     0.125, 9.5,       99.5,   0.05,  0.95,
                                  999999.5, 1e-5,  9.9999e-5, 123456, 1e300, 0x1p-1074};
    for (size_t i = 0; i < sizeof ties / sizeof *ties; i++) {
        for (int precision = 0; precision <= 60; precision++) {
            for (int k = 0; k < 3; k++) {
                fmt[3] = how[k];
                int n = snprintf(want, sizeof want, fmt, precision, ties[i]);
                CHECK_INT(num_fixed(got, sizeof got, ties[i], precision, how[k]), n);
                CHECK_TEXT(got, want);
            }
        }
    }
    CHECK_INT(num_fixed(got, 4, 3.14159, 3, 'f'), 5);
    CHECK_TEXT(got, "3.1");
    CHECK_INT(num_fixed(NULL, 0, -INFINITY, 3, 'f'), 4);
    num_fixed(got, sizeof got, NAN, 3, 'e');
    CHECK_TEXT(got, "nan");
}

/* A locale whose decimal point is a comma, made for this test. */
TEST(num_of_any_locale)
{
    static const char source[] = "LC_NUMERIC\ndecimal_point \"<U002C>\"\nthousands_sep \"\"\n"
                                 "grouping -1\nEND LC_NUMERIC\n";
    static const char tie[] = "1.00000000000000011102230246251565404236316680908203125";
    char text[32];
    double x;
    own_folder d = folder_new();
    CHECK(chdir(d.path) == 0);
    file_fill("comma.txt", source, sizeof source - 1);
    CHECK(system("localedef -c -f ANSI_X3.4-1968 -i comma.txt ./comma >said 2>&1") >= 0);
    setenv("LOCPATH", ".", 1);
    locale_t comma = newlocale(LC_NUMERIC_MASK, "comma", (locale_t)0);
    if (!comma)
        test_skip("no localedef");
    uselocale(comma);
    snprintf(text, sizeof text, "%.1f", 2.5);
    CHECK_TEXT(text, "2,5");
    num_fixed(text, sizeof text, 2.5, 1, 'f');
    CHECK_TEXT(text, "2.5");
    CHECK_INT(num_parse(tie, sizeof tie - 1, NUM_BINARY64, &x, NULL), sizeof tie - 1);
    CHECK(same(x, 1));
}
