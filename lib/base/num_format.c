/* Numbers to text: shortest digits by Schubfach, and exact digits by large integers.
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
#include <string.h>

#include "base/num_big.h"

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

/* ---- Large natural numbers: 32-bit limbs, least significant first ------------------------ */

void num_big_set(num_big *b, uint64_t x)
{
    b->n = 0;
    for (; x; x >>= 32)
        b->limb[b->n++] = (uint32_t)x;
}

void num_big_mul_add(num_big *b, uint32_t factor, uint32_t term)
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

void num_big_mul_pow5(num_big *b, int exponent)
{
    const uint32_t pow5_13 = 1220703125; /* the largest power of 5 in 32 bits */
    for (; exponent >= 13; exponent -= 13)
        num_big_mul_add(b, pow5_13, 0);
    uint32_t rest = 1;
    for (; exponent > 0; exponent--)
        rest *= 5;
    num_big_mul_add(b, rest, 0);
}

void num_big_shift(num_big *b, int bits)
{
    if (b->n == 0)
        return;
    int limbs = bits / 32;
    memmove(b->limb + limbs, b->limb, (size_t)b->n * sizeof *b->limb);
    memset(b->limb, 0, (size_t)limbs * sizeof *b->limb);
    b->n += limbs;
    if (bits % 32)
        num_big_mul_add(b, (uint32_t)1 << bits % 32, 0);
}

uint32_t num_big_div(num_big *b, uint32_t divisor)
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

int num_big_compare(const num_big *a, const num_big *b)
{
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    for (int i = a->n - 1; i >= 0; i--) {
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i] ? -1 : 1;
    }
    return 0;
}

/* ---- A fixed number of digits ----------------------------------------------------------- */

/* A number as 0.digits * 10^point, without zeros at the end. Every binary number has finitely many
 * decimal digits; a double has at most 767. One more place takes the carry of a rounding. */
typedef struct exact {
    int n, point;
    char digits[784];
} exact;

/* All digits of |x|, which is finite and not 0: c * 2^q, and for q < 0 that is c * 5^-q * 10^q. */
static void exact_digits(exact *d, double x)
{
    uint64_t c;
    int q;
    decompose(x, &num_formats[NUM_BINARY64], &c, &q);
    while (q < 0 && !(c & 1)) {
        c >>= 1;
        q++;
    }
    num_big b;
    num_big_set(&b, c);
    if (q < 0)
        num_big_mul_pow5(&b, -q);
    else
        num_big_shift(&b, q);
    /* Groups of nine digits, the last group first, into the end of the array. */
    char *end = d->digits + sizeof d->digits, *p = end;
    while (b.n > 0) {
        p -= 9;
        put_digits(p, num_big_div(&b, 1000000000), 9);
    }
    while (*p == '0')
        p++;
    d->point = (int)(end - p) + (q < 0 ? q : 0);
    while (end[-1] == '0')
        end--;
    d->n = (int)(end - p);
    memmove(d->digits, p, (size_t)d->n);
}

/* Keeps the first n digits, which may be none or fewer than none, rounded half to even. */
static void exact_round(exact *d, int n)
{
    if (n >= d->n)
        return;
    bool up = false;
    if (n >= 0) {
        char next = d->digits[n];
        bool tie = next == '5' && n + 1 == d->n;
        up = tie ? n > 0 && ((d->digits[n - 1] - '0') & 1) : next >= '5';
    }
    d->n = n > 0 ? n : 0;
    if (!up)
        return;
    int i = d->n - 1;
    while (i >= 0 && d->digits[i] == '9')
        d->digits[i--] = '0';
    if (i >= 0) {
        d->digits[i]++;
    } else {
        memmove(d->digits + 1, d->digits, (size_t)d->n);
        d->digits[0] = '1';
        d->n++;
        d->point++;
    }
}

/* The i-th digit; outside the known ones all are 0. */
static char digit_at(const exact *d, int i)
{
    return i >= 0 && i < d->n ? d->digits[i] : '0';
}

static char *put_fixed(char *p, const exact *d, int precision)
{
    if (d->n == 0 || d->point <= 0)
        *p++ = '0';
    for (int i = 0; d->n > 0 && i < d->point; i++)
        *p++ = digit_at(d, i);
    if (precision > 0)
        *p++ = '.';
    for (int i = 0; i < precision; i++)
        *p++ = digit_at(d, d->point + i);
    return p;
}

static char *put_scientific(char *p, const exact *d, int precision)
{
    *p++ = digit_at(d, 0);
    if (precision > 0)
        *p++ = '.';
    for (int i = 1; i <= precision; i++)
        *p++ = digit_at(d, i);
    return put_exponent(p, d->n > 0 ? d->point - 1 : 0);
}

/* C's %g: `precision` significant digits, without the zeros at their end. */
static char *put_general(char *p, exact *d, int precision)
{
    if (precision == 0)
        precision = 1;
    exact_round(d, precision);
    while (d->n > 0 && d->digits[d->n - 1] == '0')
        d->n--;
    int exponent = d->n > 0 ? d->point - 1 : 0;
    if (exponent < -4 || exponent >= precision)
        return put_scientific(p, d, d->n > 0 ? d->n - 1 : 0);
    return put_fixed(p, d, d->n > d->point ? d->n - d->point : 0);
}

int num_fixed(char *out, size_t size, double x, int precision, char how)
{
    char text[400], *p = text; /* the longest: a sign, 309 digits, a point, 60 digits */
    precision = precision < 0 ? 0 : precision > 60 ? 60 : precision;
    if (signbit(x) && !isnan(x))
        *p++ = '-';
    if (!isfinite(x)) {
        memcpy(p, isnan(x) ? "nan" : "inf", 3);
        p += 3;
    } else {
        exact d = {.n = 0, .point = 0};
        if (x != 0)
            exact_digits(&d, x);
        if (how == 'g') {
            p = put_general(p, &d, precision);
        } else if (how == 'e') {
            exact_round(&d, precision + 1);
            p = put_scientific(p, &d, precision);
        } else {
            exact_round(&d, d.point + precision);
            p = put_fixed(p, &d, precision);
        }
    }
    size_t n = (size_t)(p - text);
    if (size > 0) {
        size_t kept = n < size ? n : size - 1;
        memcpy(out, text, kept);
        out[kept] = '\0';
    }
    return (int)n;
}
