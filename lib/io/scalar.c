/* One element at a time, between its bytes, numbers of the host, and text. */
#include "io/scalar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "cpu/cpu.h"

num_width scalar_width(kv_dtype dtype)
{
    switch (dtype) {
    case KV_FLOAT32:
        return NUM_BINARY32;
    case KV_FLOAT16:
        return NUM_BINARY16;
    case KV_BFLOAT16:
        return NUM_BFLOAT16;
    case KV_FLOAT64:
    case KV_UINT8:
    case KV_INT32:
    case KV_INT8:
    case KV_INT64:
    case KV_BOOL:
        return NUM_BINARY64;
    }
    return NUM_BINARY64;
}

/* ---- Bytes ------------------------------------------------------------------------------ */

static const void *element(kv_dtype dtype, const void *data, int64_t i)
{
    return (const char *)data + i * kv_dtype_bytes(dtype);
}

double scalar_float(kv_dtype dtype, const void *data, int64_t i)
{
    double x;
    convert_elements(&x, KV_FLOAT64, element(dtype, data, i), dtype, 1);
    return x;
}

int64_t scalar_int(kv_dtype dtype, const void *data, int64_t i)
{
    int64_t x;
    convert_elements(&x, KV_INT64, element(dtype, data, i), dtype, 1);
    return x;
}

static scalar_fit set_int(kv_dtype dtype, void *data, int64_t i, int64_t x)
{
    int bits = (int)kv_dtype_bytes(dtype) * 8;
    int64_t max = dtype == KV_BOOL    ? 1
                  : dtype == KV_UINT8 ? 255
                                      : (int64_t)(UINT64_MAX >> (65 - bits));
    int64_t min = dtype == KV_BOOL || dtype == KV_UINT8 ? 0 : -max - 1;
    if (x < min || x > max)
        return SCALAR_TOO_LARGE;
    convert_elements((char *)data + i * kv_dtype_bytes(dtype), dtype, &x, KV_INT64, 1);
    return SCALAR_FITS;
}

/* x is a number of the dtype's format already. */
static void set_float(kv_dtype dtype, void *data, int64_t i, double x)
{
    double y = isnan(x) && kv_dtype_bytes(dtype) == 2 ? (double)NAN : x; /* of one sign */
    if (dtype == KV_FLOAT32) /* most files; a call an element shows */
        ((float *)data)[i] = (float)x;
    else
        convert_elements((char *)data + i * kv_dtype_bytes(dtype), dtype, &y, KV_FLOAT64, 1);
}

scalar_fit scalar_set(kv_dtype dtype, void *data, int64_t i, double x)
{
    if (kv_dtype_is_float(dtype)) {
        bool over;
        x = num_narrow(x, scalar_width(dtype), &over);
        set_float(dtype, data, i, x);
        return over ? SCALAR_TOO_LARGE : SCALAR_FITS;
    }
    if (isnan(x) || x != floor(x))
        return SCALAR_FRACTION;
    if (x < -0x1p63 || x >= 0x1p63)
        return SCALAR_TOO_LARGE;
    return set_int(dtype, data, i, (int64_t)x);
}

/* ---- Text ------------------------------------------------------------------------------- */

static bool is_word(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && strncasecmp(text, word, n) == 0;
}

/* Reads a number that is written with a point or an exponent and is 2^53 at least, such as
 * 9.007199254740993e15, digit by digit: a double would round it. */
static scalar_fit parse_whole(const char *text, size_t n, int64_t *x)
{
    const char *end = text;
    int64_t digits = 0, behind = 0, exponent = 0;
    bool point = false, negative = *text == '-', over = false;
    for (; end < text + n && *end != 'e' && *end != 'E'; end++) {
        bool digit = *end >= '0' && *end <= '9';
        point |= *end == '.';
        digits += digit;
        behind += digit && point;
    }
    if (end < text + n)
        num_parse_int(end + 1, n - (size_t)(end - text) - 1, &exponent, NULL);
    /* The digits before the point, once the exponent has moved it. */
    int64_t before = digits - behind + exponent, at = 0;
    *x = 0;
    for (const char *p = text; p < end && !over; p++) {
        if (*p < '0' || *p > '9')
            continue;
        if (at++ >= before && *p != '0')
            return SCALAR_FRACTION;
        int digit = negative ? '0' - *p : *p - '0';
        if (at <= before)
            over = __builtin_mul_overflow(*x, 10, x) || __builtin_add_overflow(*x, digit, x);
    }
    for (; at < before && !over; at++)
        over = __builtin_mul_overflow(*x, 10, x);
    return over ? SCALAR_TOO_LARGE : SCALAR_FITS;
}

scalar_fit scalar_parse(kv_dtype dtype, void *data, int64_t i, const char *text, size_t n)
{
    bool is_float = kv_dtype_is_float(dtype), over;
    double x;
    int64_t whole;
    if (is_float && num_parse(text, n, scalar_width(dtype), &x, &over) == n && n > 0) {
        set_float(dtype, data, i, x);
        return over ? SCALAR_TOO_LARGE : SCALAR_FITS;
    }
    if (!is_float && num_parse_int(text, n, &whole, &over) == n && n > 0)
        return over ? SCALAR_TOO_LARGE : set_int(dtype, data, i, whole);
    if (!is_float && num_parse(text, n, NUM_BINARY64, &x, &over) == n && n > 0) {
        if (over || fabs(x) < 0x1p53 || !isfinite(x))
            return over ? SCALAR_TOO_LARGE : scalar_set(dtype, data, i, x);
        scalar_fit fit = parse_whole(text, n, &whole);
        return fit == SCALAR_FITS ? set_int(dtype, data, i, whole) : fit;
    }
    if (is_word(text, n, "true"))
        return scalar_set(dtype, data, i, 1);
    if (is_word(text, n, "false"))
        return scalar_set(dtype, data, i, 0);
    return SCALAR_NO_NUMBER;
}

bool scalar_keeps_integer(const float *element, const char *text, size_t n)
{
    char exact[64], shortest[64];
    float size = fabsf(*element);
    size_t skipped = n > 0 && (*text == '-' || *text == '+');
    while (skipped + 1 < n && text[skipped] == '0')
        skipped++;
    text += skipped;
    n -= skipped;
    for (size_t i = 0; i < n; i++)
        if (text[i] < '0' || text[i] > '9')
            return true;
    if (size < 0x1p24f)
        return true;
    num_digits d = num_shortest(size, NUM_BINARY32);
    num_fixed(exact, sizeof exact, size, 0, 'f');
    /* beyond 2^24 the shortest digits end before the point: exp10 is not negative */
    snprintf(shortest, sizeof shortest, "%llu%.*s", (unsigned long long)d.digits, (int)d.exp10,
             "00000000000000000000000000000000000000");
    return (n == strlen(exact) && memcmp(text, exact, n) == 0) ||
           (n == strlen(shortest) && memcmp(text, shortest, n) == 0);
}

int scalar_text(char *out, kv_dtype dtype, const void *data, int64_t i)
{
    if (kv_dtype_is_float(dtype))
        return num_plain(out, scalar_float(dtype, data, i), scalar_width(dtype));
    return num_int(out, scalar_int(dtype, data, i));
}

int scalar_error(kv_err *e, const char *place, scalar_fit fit, kv_dtype dtype, const char *text,
                 size_t n)
{
    /* Enough to find it in the file. */
    int shown = (int)utf8_cut(text, n, 40);
    const char *more = (size_t)shown < n ? "..." : "", *name = kv_dtype_name(dtype);
    switch (fit) {
    case SCALAR_NO_NUMBER:
        return kv_err_set(e, KV_E_FORMAT, "%s: \"%.*s%s\" is not a number", place, shown, text,
                          more);
    case SCALAR_TOO_LARGE:
        return kv_err_set(e, KV_E_FORMAT, "%s: %.*s%s does not fit %s", place, shown, text, more,
                          name);
    case SCALAR_FRACTION:
        return kv_err_set(e, KV_E_FORMAT, "%s: %.*s%s is not a whole number, as %s needs", place,
                          shown, text, more, name);
    case SCALAR_ROUNDED:
        return kv_err_set(e, KV_E_FORMAT, "%s: %s does not hold %.*s%s", place, name, shown, text,
                          more);
    case SCALAR_FITS:
        break;
    }
    return KV_OK;
}

const char *scalar_dtype_option(const char *text, size_t n)
{
    int64_t x;
    bool over = false;
    num_parse_int(text, n, &x, &over);
    return over ? "dtype=\"float64\"" : "dtype=\"int64\"";
}

int64_t scalar_bytes(kv_dtype dtype, int ndim, const int64_t *shape)
{
    int64_t bytes = kv_dtype_bytes(dtype);
    bool over = false, empty = false;
    for (int i = 0; i < ndim; i++) {
        empty |= shape[i] == 0;
        over |= shape[i] != 0 && __builtin_mul_overflow(bytes, shape[i], &bytes);
    }
    return empty ? 0 : over ? -1 : bytes;
}

int64_t scalar_not_bool(const unsigned char *data, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (data[i] > 1)
            return i;
    return -1;
}
