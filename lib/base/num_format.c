/* Numbers to text: shortest digits by Schubfach; a fixed number of them by the C library, which
 * rounds the exact digits.
 *
 * Schubfach (Giulietti 2020). A number v = c * 2^q is the nearest of its format for every real
 * number of an interval around it, from half a place below to half a place above. With k chosen so
 * that 10^k <= 2^q < 10^(k+1), the interval is at least as wide as 10^k and narrower than 10^(k+1):
 * it holds at most one multiple of 10^(k+1), which is then the shortest, and at least one of the
 * two multiples of 10^k around v. So four candidates decide. They are compared in units of 10^k / 4
 * after one multiplication each by a 128-bit power of ten; "rounding to odd" keeps in the last bit
 * whether anything was cut off, which is enough to make every comparison exact.
 *
 * An example: 0.1 in binary32 has c = 13421773, q = -27, k = -9. v is 100000001.49 * 10^-9 and the
 * interval from 99999997.8 to 100000005.2 (times 10^-9) holds 10000000 * 10^-8: the one digit 1.
 */
#include "base/num.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num_power.h"

__extension__ typedef unsigned __int128 u128;

const num_format num_formats[4] = {
    [NUM_BINARY16] = {11, -24, 16},
    [NUM_BFLOAT16] = {8, -133, 128},
    [NUM_BINARY32] = {24, -149, 128},
    [NUM_BINARY64] = {53, -1074, 1024},
};

/* ---- Shortest digits -------------------------------------------------------------------- */

/* Finds c and q with |x| = c * 2^q, where 2^q is the last place of x in the format. */
static void decompose(double x, const num_format *format, uint64_t *c, int *q)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7FF);
    uint64_t fraction = bits & ((1ull << 52) - 1);
    *c = exponent ? fraction | 1ull << 52 : fraction;
    *q = (exponent ? exponent : 1) - 1075;
    int shift = 53 - format->precision;
    if (*q + shift < format->min_exp)
        shift = format->min_exp - *q;
    *c >>= shift;
    *q += shift;
}

/* floor(g * x / 2^128), with the last bit set when what is cut off is not 0. The table's g may be
 * too large by less than one. That reaches only the lowest 64 of the 192 bits, which do not count.
 */
static uint64_t round_to_odd(const num_power *g, uint64_t x)
{
    u128 low = (u128)g->lo * x;
    u128 high = (u128)g->hi * x + (uint64_t)(low >> 64);
    return (uint64_t)(high >> 64) | ((uint64_t)high != 0);
}

static num_digits strip_zeros(uint64_t digits, int exp10)
{
    while (digits % 100 == 0) {
        digits /= 100;
        exp10 += 2;
    }
    if (digits % 10 == 0) {
        digits /= 10;
        exp10++;
    }
    int n = 0;
    for (uint64_t rest = digits; rest; rest /= 10)
        n++;
    return (num_digits){digits, exp10, n};
}

num_digits num_shortest(double x, num_width width)
{
    const num_format *format = &num_formats[width];
    double size = fabs(x);
    /* Whole numbers whose neighbours are at most one away need all their digits. */
    if (size < (double)(1ull << format->precision) && size == (double)(uint64_t)size)
        return strip_zeros((uint64_t)size, 0);

    uint64_t c;
    int q;
    decompose(x, format, &c, &q);
    bool odd = c & 1;
    /* Below a power of two the numbers lie twice as close. */
    bool closer_below = c == 1ull << (format->precision - 1) && q > format->min_exp;
    /* floor(log10(2^q)), or floor(log10(3/4 * 2^q)), right for |q| <= 1100. */
    int k = (q * 1262611 - (closer_below ? 524031 : 0)) >> 22;
    int shift = q + num_log2_pow10(-k) + 1;
    const num_power *g = &num_powers[-k - NUM_POWER_MIN];
    uint64_t v = round_to_odd(g, c * 4 << shift);
    uint64_t lower = round_to_odd(g, (c * 4 - (closer_below ? 1 : 2)) << shift) + odd;
    uint64_t upper = round_to_odd(g, (c * 4 + 2) << shift) - odd;

    uint64_t floor = v / 4;
    if (floor >= 10) {
        uint64_t tens = floor / 10;
        bool below = lower <= tens * 40, above = tens * 40 + 40 <= upper;
        if (below != above)
            return strip_zeros(tens + above, k + 1);
    }
    bool below = lower <= floor * 4, above = floor * 4 + 4 <= upper;
    if (below == above) {
        uint64_t middle = floor * 4 + 2;
        above = v > middle || (v == middle && (floor & 1));
    }
    return strip_zeros(floor + above, k);
}

/* Writes the digits of x, which has n of them. */
static void put_digits(char *out, uint64_t x, int n)
{
    for (int i = n - 1; i >= 0; i--, x /= 10)
        out[i] = (char)('0' + x % 10);
}

/* Writes e+05, e-123: a sign and at least two digits, as C and Python do. */
static char *put_exponent(char *p, int exponent)
{
    *p++ = 'e';
    *p++ = exponent < 0 ? '-' : '+';
    int size = exponent < 0 ? -exponent : exponent;
    int n = size >= 100 ? 3 : 2;
    put_digits(p, (uint64_t)size, n);
    return p + n;
}

/* The digits with the point where Python puts it: as an exponent from 1e16 on and below 1e-4. */
static char *put_shortest(char *p, num_digits d, bool whole_point)
{
    int point = d.n + d.exp10; /* digits before the point */
    if (point > 16 || point < -3) {
        put_digits(p + (d.n > 1), d.digits, d.n);
        if (d.n > 1) {
            p[0] = p[1];
            p[1] = '.';
        }
        return put_exponent(p + d.n + (d.n > 1), point - 1);
    }
    if (point <= 0) {
        memcpy(p, "0.0000", 6);
        put_digits(p + 2 - point, d.digits, d.n);
        return p + 2 - point + d.n;
    }
    if (d.exp10 >= 0) {
        put_digits(p, d.digits, d.n);
        memset(p + d.n, '0', (size_t)d.exp10);
        p += point;
        if (whole_point) {
            *p++ = '.';
            *p++ = '0';
        }
        return p;
    }
    put_digits(p + 1, d.digits, d.n);
    memmove(p, p + 1, (size_t)point);
    p[point] = '.';
    return p + d.n + 1;
}

static int put_number(char *out, double x, num_width width, bool whole_point)
{
    char *p = out;
    if (signbit(x) && !isnan(x))
        *p++ = '-';
    if (!isfinite(x)) {
        memcpy(p, isnan(x) ? "nan" : "inf", 3);
        p += 3;
    } else if (x == 0) {
        *p++ = '0';
        if (whole_point) {
            *p++ = '.';
            *p++ = '0';
        }
    } else {
        p = put_shortest(p, num_shortest(x, width), whole_point);
    }
    *p = '\0';
    return (int)(p - out);
}

int num_repr(char *out, double x, num_width width)
{
    return put_number(out, x, width, true);
}

int num_plain(char *out, double x, num_width width)
{
    return put_number(out, x, width, x == 0 && signbit(x));
}

int num_int(char *out, int64_t x)
{
    char text[NUM_TEXT_MAX], *p = text + sizeof text;
    uint64_t rest = x < 0 ? -(uint64_t)x : (uint64_t)x;
    *--p = '\0';
    do {
        *--p = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (x < 0)
        *--p = '-';
    int n = (int)(text + sizeof text - 1 - p);
    memcpy(out, p, (size_t)n + 1);
    return n;
}

/* ---- A fixed number of digits ----------------------------------------------------------- */

int num_fixed(char *out, size_t size, double x, int precision, char how)
{
    precision = precision < 0 ? 0 : precision > 60 ? 60 : precision;
    const char format[] = {'%', '.', (char)('0' + precision / 10), (char)('0' + precision % 10),
                           how, '\0'};
    locale_t before = uselocale(num_locale());
    int n = strfromd(out, size, format, isnan(x) ? NAN : x); /* nan has no sign */
    uselocale(before);
    return n;
}
