/* Text to numbers, rounded once to the width asked for.
 *
 * The digits become an integer D of at most 19 digits and a power of ten. Three ways, the first
 * that decides is taken:
 *   1. D and the power are exact doubles: one operation rounds correctly (Clinger 1990). A narrower
 *      width may round that double again unless it lies half-way between two of its numbers.
 *   2. D times a 128-bit power of ten encloses the number between two bounds. When both round
 *      alike, so does the number.
 *   3. The bounds round to two neighbours, so the number lies near the point half-way between them:
 *      the C library reads it as a double, or tells on which side of that point it is.
 */
#include "base/num.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num_power.h"

__extension__ typedef unsigned __int128 u128;

/* A half-way point between two doubles has at most 767 significant digits. From digits beyond this
 * many it only matters whether any is not 0. */
#define EXACT_DIGITS 800

/* A number as read: its first digits as an integer times 10^exp10, and the place of all digits. */
typedef struct decimal {
    uint64_t d;
    int64_t exp10;
    bool cut;          /* digits beyond the 19th were left out, and may not be 0 */
    const char *first; /* the first digit that is not 0 */
    const char *end;   /* behind the last digit */
} decimal;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The length of `word` if the text begins with it, in any case, else 0. */
static size_t match_word(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(end - p) < n)
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (lower(p[i]) != word[i])
            return 0;
    }
    return n;
}

/* Reads "e", a sign and digits; *p stays where it is when they are not all there. */
static int64_t scan_exponent(const char **p, const char *end)
{
    const char *s = *p;
    if (s == end || lower(*s) != 'e')
        return 0;
    s++;
    bool negative = s < end && *s == '-';
    if (s < end && (*s == '-' || *s == '+'))
        s++;
    if (s == end || !is_digit(*s))
        return 0;
    int64_t exponent = 0;
    for (; s < end && is_digit(*s); s++) {
        if (exponent < 1000000000000) /* larger than any text is long */
            exponent = exponent * 10 + (*s - '0');
    }
    *p = s;
    return negative ? -exponent : exponent;
}

/* Reads digits, point and exponent from *p; false when there is no digit. */
static bool scan(decimal *n, const char **p, const char *end)
{
    const char *s = *p, *first = NULL, *point = NULL;
    uint64_t d = 0;
    int64_t kept = 0, dropped = 0, fraction = 0;
    bool any = false, cut = false;
    for (; s < end; s++) {
        if (*s == '.' && !point) {
            point = s;
            continue;
        }
        if (!is_digit(*s))
            break;
        any = true;
        fraction += point != NULL;
        if (!first && *s != '0')
            first = s;
        if (!first)
            continue;
        if (kept < 19) {
            d = d * 10 + (uint64_t)(*s - '0');
            kept++;
        } else {
            dropped++;
            cut |= *s != '0';
        }
    }
    if (!any)
        return false;
    *n = (decimal){d, dropped - fraction, cut, first, s};
    *p = s;
    n->exp10 += scan_exponent(p, end);
    return true;
}

/* 2^e for -1022 <= e <= 1023. */
static double pow2(int e)
{
    uint64_t bits = (uint64_t)(e + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- 1. One exact operation ------------------------------------------------------------- */

/* Returns true if rounding x, a positive double of a normal size, to the format gives the right
 * result for every number that rounds to x: it is far from overflow and underflow and not
 * half-way. */
static bool narrows_safely(double x, const num_format *format)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    int spare = 53 - format->precision;
    if (spare == 0)
        return true;
    if (exponent >= format->max_exp - 1 || exponent < format->min_exp + format->precision)
        return false;
    return (bits & ((1ull << spare) - 1)) != 1ull << (spare - 1);
}

/* Rounds x to the precision of a format, half to even; narrows_safely(x) holds. */
static double narrow(double x, const num_format *format)
{
    int spare = 53 - format->precision;
    if (spare == 0)
        return x;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits += 1ull << (spare - 1);
    bits &= ~((1ull << spare) - 1);
    memcpy(&x, &bits, sizeof x);
    return x;
}

static bool by_one_operation(double *x, const decimal *n, const num_format *format)
{
    static const double pow10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (n->cut || n->d > 1ull << 53 || n->exp10 < -22 || n->exp10 > 22)
        return false;
    double d = (double)n->d;
    double rounded = n->exp10 < 0 ? d / pow10[-n->exp10] : d * pow10[n->exp10];
    if (!narrows_safely(rounded, format))
        return false;
    *x = narrow(rounded, format);
    return true;
}

/* ---- 2. Two bounds ---------------------------------------------------------------------- */

/* c * 2^exp, where c has at most the format's precision (or is the power of two above). */
typedef struct rounded {
    uint64_t c;
    int exp;
} rounded;

/* m * 2^exp rounded half to even to the format, as if it had no greatest number; m >= 2^64. */
static rounded round_bits(u128 m, int exp, const num_format *format)
{
    int length = 128 - __builtin_clzll((uint64_t)(m >> 64));
    int shift = length - format->precision;
    if (exp + shift < format->min_exp)
        shift = format->min_exp - exp;
    if (shift > 128)
        return (rounded){0, exp + shift};
    u128 c = shift < 128 ? m >> shift : 0;
    u128 half = (u128)1 << (shift - 1);
    u128 rest = shift < 128 ? m & (half * 2 - 1) : m;
    c += rest > half || (rest == half && (c & 1));
    return (rounded){(uint64_t)c, exp + shift};
}

/* Rounds both bounds of the number. m and its exponent: D * 10^exp10 = m * 2^exp, where m is too
 * large by less than 1 or too small by less than 1. */
static void round_bounds(rounded *low, rounded *high, const decimal *n, const num_format *format)
{
    const num_power *g = &num_powers[n->exp10 - NUM_POWER_MIN];
    int zeros = __builtin_clzll(n->d);
    uint64_t d = n->d << zeros;
    u128 m = (u128)g->hi * d + (uint64_t)((u128)g->lo * d >> 64);
    int exp = num_log2_pow10((int)n->exp10) - 127 - zeros + 64;
    /* Digits left out add less than one to D. Here D has 19 digits, so that zeros is at most 4; the
     * sum stays below 2^128 because D + 1 does not reach 2^(64 - zeros), or is kept there. */
    u128 more = n->cut ? ((u128)g->hi + 1) << zeros : 0;
    u128 top = m > ~(u128)0 - more - 1 ? ~(u128)0 : m + more + 1;
    *low = round_bits(m - 1, exp, format);
    *high = round_bits(top, exp, format);
}

/* ---- 3. The C library ------------------------------------------------------------------- */

/* The number as a double, rounded in a direction of <fenv.h>. */
static double read_all(const decimal *n, int direction)
{
    char text[EXACT_DIGITS + 32];
    int64_t kept = 0, all = 0;
    bool more = false;
    for (const char *s = n->first; s < n->end; s++) {
        if (*s == '.')
            continue;
        if (all++ < EXACT_DIGITS)
            text[kept++] = *s;
        else
            more |= *s != '0';
    }
    int64_t exp10 = n->exp10 + (all < 19 ? all : 19) - kept;
    if (more) {
        text[kept++] = '1';
        exp10--;
    }
    snprintf(text + kept, sizeof text - (size_t)kept, "e%lld", (long long)exp10);
    int before = fegetround();
    fesetround(direction);
    double x = strtod_l(text, NULL, num_locale());
    fesetround(before);
    return x;
}

/* Compares the number with c * 2^exp, which is a double: above it (1), equal (0) or below (-1). */
static int compare_exactly(const decimal *n, uint64_t c, int exp)
{
    double point = ldexp((double)c, exp);
    return (read_all(n, FE_UPWARD) > point) - (read_all(n, FE_DOWNWARD) < point);
}

/* ---- Together --------------------------------------------------------------------------- */

/* r as a double, or an infinity beyond the format's greatest number. */
static double finish(rounded r, const num_format *format, bool *over)
{
    int length = r.c ? 64 - __builtin_clzll(r.c) : 0;
    if (r.c && r.exp + length > format->max_exp) {
        *over = true;
        return INFINITY;
    }
    if (r.c == 0)
        return 0;
    /* A subnormal double needs two steps, both exact. */
    if (r.exp < -1022)
        return (double)r.c * pow2(r.exp + 60) * pow2(-60);
    return (double)r.c * pow2(r.exp);
}

static double to_width(const decimal *n, const num_format *format, bool *over)
{
    double x;
    if (n->d == 0)
        return 0;
    if (by_one_operation(&x, n, format))
        return x;
    /* D has 1 to 19 digits. */
    if (n->exp10 < NUM_POWER_MIN)
        return 0;
    if (n->exp10 > 308) {
        *over = true;
        return INFINITY;
    }
    rounded low, high;
    round_bounds(&low, &high, n, format);
    if (low.c != high.c && low.exp == high.exp) {
        if (format->precision == 53)
            return x = read_all(n, FE_TONEAREST), *over = isinf(x), x;
        int side = compare_exactly(n, low.c * 2 + 1, low.exp - 1);
        if (side > 0 || (side == 0 && (low.c & 1)))
            low = high;
    }
    return finish(low, format, over);
}

size_t num_parse(const char *text, size_t n, num_width width, double *x, bool *over)
{
    const char *p = text, *end = text + n;
    bool dummy = false;
    if (!over)
        over = &dummy;
    *over = false;
    bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    double size;
    decimal d;
    if (scan(&d, &p, end)) {
        size = to_width(&d, &num_formats[width], over);
    } else {
        size_t word;
        if ((word = match_word(p, end, "infinity")) || (word = match_word(p, end, "inf")))
            size = INFINITY;
        else if ((word = match_word(p, end, "nan")))
            size = NAN;
        else
            return 0;
        p += word;
    }
    *x = negative && !isnan(size) ? -size : size;
    return (size_t)(p - text);
}

double num_narrow(double x, num_width width, bool *over)
{
    const num_format *format = &num_formats[width];
    bool dummy;
    *(over ? over : &dummy) = false;
    if (!isfinite(x) || x == 0 || width == NUM_BINARY64)
        return x;
    double size = fabs(x);
    if (narrows_safely(size, format)) {
        size = narrow(size, format);
    } else {
        int exponent;
        double fraction = frexp(size, &exponent);
        u128 m = (u128)(uint64_t)ldexp(fraction, 53) << 64;
        size = finish(round_bits(m, exponent - 53 - 64, format), format, over ? over : &dummy);
    }
    return copysign(size, x);
}

size_t num_parse_int(const char *text, size_t n, int64_t *x, bool *over)
{
    const char *p = text, *end = text + n;
    bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    if (p == end || !is_digit(*p))
        return 0;
    uint64_t limit = (uint64_t)INT64_MAX + negative, size = 0;
    bool fits = true;
    for (; p < end && is_digit(*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        fits = fits && size <= (limit - digit) / 10;
        if (fits)
            size = size * 10 + digit;
    }
    if (over)
        *over = !fits;
    *x = fits ? (int64_t)(negative ? -size : size) : negative ? INT64_MIN : INT64_MAX;
    return (size_t)(p - text);
}
