/* Host numbers as text: % directives, f-string fields, print. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/visible.h"
#include "vm/host.h"

#define WIDTH_MAX     10000
#define PRECISION_MAX 60 /* what num_fixed takes */

/* A directive: %-8.3f, or the same without % behind the colon of a field. */
typedef struct directive {
    bool left, plus, blank, zero;
    int width;
    int precision; /* -1: none */
    char letter;   /* 0: none */
} directive;

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Where the UTF-8 character that begins at s ends. */
static const char *next_character(const char *s)
{
    s++;
    while (((unsigned char)*s & 0xc0) == 0x80)
        s++;
    return s;
}

static void quote(buf *out, const char *text)
{
    char mark = strchr(text, '\'') && !strchr(text, '"') ? '"' : '\'';
    buf_char(out, mark);
    size_t n = strlen(text);
    for (size_t i = 0, size; i < n; i += size) {
        char escape[VISIBLE_MAX];
        bool hidden = visible_escape(escape, text + i, n - i, &size);
        if (text[i] == mark || text[i] == '\\')
            buf_printf(out, "\\%c", text[i]);
        else if (text[i] == '\n' || text[i] == '\t')
            buf_add(out, text[i] == '\n' ? "\\n" : "\\t");
        else if (hidden)
            buf_add(out, escape);
        else
            buf_put(out, text + i, size);
    }
    buf_char(out, mark);
}

void host_print(buf *out, host x, bool repr)
{
    char text[NUM_TEXT_MAX];
    switch (x.kind) {
    case HOST_NONE:
        buf_add(out, "None");
        return;
    case HOST_BOOL:
        buf_add(out, x.u.integer ? "True" : "False");
        return;
    case HOST_INT:
        num_int(text, x.u.integer);
        buf_add(out, text);
        return;
    case HOST_FLOAT:
        num_repr(text, x.u.number, NUM_BINARY64);
        buf_add(out, text);
        return;
    case HOST_TEXT:
        if (repr)
            quote(out, x.u.text);
        else
            buf_add(out, x.u.text);
        return;
    }
}

/* ---- Directives ------------------------------------------------------------------------------ */

/* Reads digits, at most max. Returns where they end, or NULL when the number is larger. */
static const char *read_count(const char *s, int max, int *n)
{
    int x = 0;
    for (; *s >= '0' && *s <= '9'; s++) {
        x = x * 10 + (*s - '0');
        if (x > max)
            return NULL;
    }
    *n = x;
    return s;
}

static const char *read_flags(directive *d, const char *s)
{
    for (;; s++) {
        if (*s == '-')
            d->left = true;
        else if (*s == '+')
            d->plus = true;
        else if (*s == ' ')
            d->blank = true;
        else if (*s == '0')
            d->zero = true;
        else
            return s;
    }
}

/* Reads flags, width, precision and the letter if one follows. Returns where it ends, or NULL. */
static const char *read_directive(directive *d, const char *s, kv_err *e)
{
    *d = (directive){.precision = -1};
    s = read_count(read_flags(d, s), WIDTH_MAX, &d->width);
    if (!s) {
        kv_err_set(e, KV_E_VALUE, "a width is at most %d", WIDTH_MAX);
        return NULL;
    }
    if (*s == '.')
        s = read_count(s + 1, PRECISION_MAX, &d->precision);
    if (!s) {
        kv_err_set(e, KV_E_VALUE, "a precision is at most %d", PRECISION_MAX);
        return NULL;
    }
    d->letter = *s;
    return *s ? s + 1 : s;
}

static int bad_letter(const directive *d, const char *where, kv_err *e)
{
    unsigned char c = (unsigned char)d->letter;
    if (c == 0)
        kv_err_set(e, KV_E_VALUE, "%s ends without its letter", where);
    else if (c <= ' ' || c >= 0x7f)
        kv_err_set(e, KV_E_VALUE, "%s has no letter that says how", where);
    else
        kv_err_set(e, KV_E_VALUE, "%s does not know the letter %c", where, c);
    return kv_err_hint(e, "the letters are d s r e f g x");
}

/* Appends a number's digits behind its sign, padded to the width. */
static void put_number(buf *out, const directive *d, bool negative, const char *digits, bool finite)
{
    const char *sign = negative ? "-" : d->plus ? "+" : d->blank ? " " : "";
    int64_t pad = d->width - (int64_t)(strlen(sign) + strlen(digits));
    bool zeros = d->zero && !d->left && finite;
    if (!d->left && !zeros)
        buf_repeat(out, ' ', pad > 0 ? pad : 0);
    buf_add(out, sign);
    if (zeros)
        buf_repeat(out, '0', pad > 0 ? pad : 0);
    buf_add(out, digits);
    if (d->left)
        buf_repeat(out, ' ', pad > 0 ? pad : 0);
}

static void put_text(buf *out, const directive *d, const char *text)
{
    const char *end = text;
    int64_t n = 0;
    for (; *end && n != d->precision; n++)
        end = next_character(end);
    int64_t pad = d->width > n ? d->width - n : 0;
    if (!d->left)
        buf_repeat(out, ' ', pad);
    buf_put(out, text, (size_t)(end - text));
    if (d->left)
        buf_repeat(out, ' ', pad);
}

static int put_float(buf *out, const directive *d, host x, kv_err *e)
{
    if (!host_is_number(x))
        return kv_err_set(e, KV_E_DTYPE, "%%%c takes a number, not %s", d->letter,
                          host_kind_name(x.kind));
    double v = host_number(x);
    char text[512] = "inf";
    if (isnan(v))
        memcpy(text, "nan", 4);
    else if (isfinite(v))
        num_fixed(text, sizeof text, fabs(v), d->precision < 0 ? 6 : d->precision, d->letter);
    put_number(out, d, signbit(v) && !isnan(v), text, isfinite(v));
    return KV_OK;
}

static int put_integer(buf *out, const directive *d, host x, kv_err *e)
{
    int64_t v = 0;
    bool whole = x.kind == HOST_BOOL || x.kind == HOST_INT;
    if (whole)
        v = x.u.integer;
    else if (x.kind == HOST_FLOAT && x.u.number == floor(x.u.number) && fabs(x.u.number) < 0x1p63) {
        v = (int64_t)x.u.number;
        whole = true;
    }
    if (!whole && x.kind == HOST_FLOAT)
        return kv_err_set(e, KV_E_DTYPE, "%%%c takes a whole number, not a fraction", d->letter);
    if (!whole)
        return kv_err_set(e, KV_E_DTYPE, "%%%c takes a whole number, not %s", d->letter,
                          host_kind_name(x.kind));
    uint64_t size = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    buf digits = {0};
    buf_printf(&digits, d->letter == 'x' ? "%llx" : "%llu", (unsigned long long)size);
    buf all = {0};
    buf_repeat(&all, '0', d->precision > (int64_t)digits.len ? d->precision - (int)digits.len : 0);
    buf_put(&all, buf_text(&digits), digits.len);
    put_number(out, d, v < 0, buf_text(&all), d->precision < 0);
    int rc = buf_check(&digits, e) ? KV_E_MEMORY : buf_check(&all, e);
    buf_release(&digits);
    buf_release(&all);
    return rc;
}

static int put_any(buf *out, const directive *d, host x, bool repr, kv_err *e)
{
    buf text = {0};
    host_print(&text, x, repr);
    put_text(out, d, buf_text(&text));
    int rc = buf_check(&text, e);
    buf_release(&text);
    return rc;
}

/* The letter of d is one of those that take a value. */
static int put(buf *out, const directive *d, host x, kv_err *e)
{
    if (strchr("efg", d->letter))
        return put_float(out, d, x, e);
    if (strchr("dix", d->letter))
        return put_integer(out, d, x, e);
    return put_any(out, d, x, d->letter == 'r', e);
}

int host_format(buf *out, const char *fmt, const host *args, int n, kv_err *e)
{
    int used = 0;
    for (const char *s = fmt; *s;) {
        const char *sign = strchr(s, '%');
        if (!sign) {
            buf_add(out, s);
            break;
        }
        buf_put(out, s, (size_t)(sign - s));
        directive d;
        s = read_directive(&d, sign + 1, e);
        if (!s)
            return KV_E_VALUE;
        if (d.letter == '%') {
            buf_char(out, '%');
            continue;
        }
        if (!d.letter || !strchr("dsrefgxi", d.letter))
            return bad_letter(&d, "a % directive", e);
        if (used == n)
            return kv_err_set(e, KV_E_VALUE, "the text has more %% directives than values (%d)", n);
        int rc = put(out, &d, args[used++], e);
        if (rc)
            return rc;
    }
    if (used < n)
        return kv_err_set(e, KV_E_VALUE, "the text has %d %% directive%s for %d values", used,
                          used == 1 ? "" : "s", n);
    return buf_check(out, e);
}

/* A number without a letter: as print shows it, with the flags and the width of d. */
static int put_plain(buf *out, const directive *d, host x, kv_err *e)
{
    buf text = {0};
    host_print(&text, x, false);
    const char *t = buf_text(&text);
    bool negative = *t == '-', finite = x.kind != HOST_FLOAT || isfinite(x.u.number);
    put_number(out, d, negative, t + negative, finite && x.kind != HOST_BOOL);
    int rc = buf_check(&text, e);
    buf_release(&text);
    return rc;
}

int host_format_field(buf *out, host x, const char *spec, kv_err *e)
{
    directive d;
    const char *end = read_directive(&d, spec ? spec : "", e);
    if (!end)
        return KV_E_VALUE;
    if (d.letter && !strchr("dsrefgxi", d.letter))
        return bad_letter(&d, "a field", e);
    if (*end)
        return kv_err_set(e, KV_E_VALUE, "a field ends behind its letter %c", d.letter);
    if (!d.letter && x.kind == HOST_FLOAT && d.precision >= 0)
        d.letter = 'g';
    int rc = KV_OK;
    if (d.letter)
        rc = put(out, &d, x, e);
    else if (host_is_number(x))
        rc = put_plain(out, &d, x, e);
    else {
        d.left = true;
        rc = put_any(out, &d, x, false, e);
    }
    return rc ? rc : buf_check(out, e);
}
