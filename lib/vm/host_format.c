/* Host numbers as text: % directives, f-string fields, print. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/num.h"
#include "vm/host.h"

/* ---- Numbers and texts as values ------------------------------------------------------------- */

host host_none(void)
{
    return (host){.kind = HOST_NONE};
}

host host_bool(bool x)
{
    return (host){.kind = HOST_BOOL, .u.integer = x};
}

host host_int(int64_t x)
{
    return (host){.kind = HOST_INT, .u.integer = x};
}

host host_float(double x)
{
    return (host){.kind = HOST_FLOAT, .u.number = x};
}

host host_text(const char *text)
{
    return (host){.kind = HOST_TEXT, .u.text = text};
}

host host_literal(const ast *node)
{
    switch (node->kind) {
    case AST_INT:
        return host_int(node->u.integer);
    case AST_FLOAT:
        return host_float(node->u.number);
    case AST_TEXT:
        return host_text(node->u.text);
    case AST_BOOL:
        return host_bool(node->u.integer != 0);
    default: /* kinds beyond those of literals */
        return host_none();
    }
}

const char *host_kind_name(host_kind kind)
{
    static const char *const names[] = {"none", "bool", "int", "float", "text"};
    return names[kind];
}

bool host_is_number(host x)
{
    return x.kind == HOST_BOOL || x.kind == HOST_INT || x.kind == HOST_FLOAT;
}

double host_number(host x)
{
    return x.kind == HOST_FLOAT ? x.u.number : (double)x.u.integer;
}

bool host_truth(host x)
{
    switch (x.kind) {
    case HOST_NONE:
        return false;
    case HOST_BOOL:
    case HOST_INT:
        return x.u.integer != 0;
    case HOST_FLOAT:
        return x.u.number != 0;
    case HOST_TEXT:
        return x.u.text[0] != '\0';
    }
    return false;
}

#define WIDTH_MAX     10000
#define PRECISION_MAX 60 /* what num_fixed takes */
#define FLOAT_MAX     510 /* the longest float: 1e308 with that precision, and some */

/* A directive: %-8.3f, or what stands behind the colon of a field: *^+12,.2f. */
typedef struct directive {
    const char *mark; /* "%" of a directive, "" of a field: for messages */
    const char *fill; /* a character of fill_bytes bytes */
    int fill_bytes;
    char align;  /* < > ^, or = for padding behind the sign; 0: by the kind of the value */
    char sign;   /* '+', ' ', '-', or 0 as '-' */
    bool prefix; /* 0x, 0o, 0b */
    char group;  /* ',' or '_' between groups of digits, 0: none */
    int width;
    int precision; /* -1: none */
    char letter;   /* 0: none */
} directive;

/* ---- Texts ----------------------------------------------------------------------------------- */

/* The end of the UTF-8 character that begins at s. */
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

/* Reads .precision, if it is there. Returns where it ends, or NULL. */
static const char *read_precision(directive *d, const char *s, kv_err *e)
{
    if (*s == '.' && !(s = read_count(s + 1, PRECISION_MAX, &d->precision)))
        kv_err_set(e, KV_E_VALUE, "a precision is at most %d", PRECISION_MAX);
    return s;
}

static const char *read_width(directive *d, const char *s, kv_err *e)
{
    if (!(s = read_count(s, WIDTH_MAX, &d->width)))
        kv_err_set(e, KV_E_VALUE, "a width is at most %d", WIDTH_MAX);
    return s;
}

static directive no_directive(const char *mark)
{
    return (directive){.mark = mark, .fill = " ", .fill_bytes = 1, .precision = -1};
}

/* [-+ 0#][width][.precision] and the letter, if one follows. Returns where it ends, or NULL. */
static const char *read_directive(directive *d, const char *s, kv_err *e)
{
    *d = no_directive("%");
    d->align = '>';
    bool zero = false;
    for (; *s && strchr("-+ 0#", *s); s++) {
        zero |= *s == '0';
        d->prefix |= *s == '#';
        if (*s == '-')
            d->align = '<';
        else if (*s == '+' || (*s == ' ' && !d->sign))
            d->sign = *s;
    }
    if (!(s = read_width(d, s, e)) || !(s = read_precision(d, s, e)))
        return NULL;
    d->letter = *s;
    if (zero && d->align == '>' && *s != 's' && *s != 'r') {
        d->fill = "0";
        d->align = '=';
    }
    return *s ? s + 1 : s;
}

/* [[fill]align][sign][#][0][width][,][.precision] and the letter, if one follows, as Python reads
 * them. Returns where it ends, or NULL. */
static const char *read_field(directive *d, const char *s, kv_err *e)
{
    *d = no_directive("");
    const char *second = *s ? next_character(s) : s;
    if (*second && strchr("<>=^", *second)) {
        d->fill = s;
        d->fill_bytes = (int)(second - s);
        s = second;
    }
    bool filled = s == second && *s;
    if (*s && strchr("<>=^", *s))
        d->align = *s++;
    if (*s && strchr("+- ", *s)) {
        d->sign = *s++;
    }
    if ((d->prefix = *s == '#'))
        s++;
    if (*s == '0' && !filled)
        d->fill = "0";
    if (!(s = read_width(d, s, e)))
        return NULL;
    if (*s == ',' || *s == '_')
        d->group = *s++;
    if (*s == '.' && !(s[1] >= '0' && s[1] <= '9')) {
        kv_err_set(e, KV_E_VALUE, "the precision behind `.` is missing");
        return NULL;
    }
    if (!(s = read_precision(d, s, e)))
        return NULL;
    d->letter = *s;
    return *s ? s + 1 : s;
}

static int bad_letter(const directive *d, kv_err *e)
{
    unsigned char c = (unsigned char)d->letter;
    const char *where = *d->mark ? "a % directive" : "a field";
    if (c == 0)
        kv_err_set(e, KV_E_VALUE, "%s ends without its letter", where);
    else if (c <= ' ' || c >= 0x7f)
        kv_err_set(e, KV_E_VALUE, "%s has no letter that says how", where);
    else
        kv_err_set(e, KV_E_VALUE, "%s does not know the letter %c", where, c);
    kv_err_hint(e, *d->mark ? "the letters are d i s r e f g x X o"
                            : "the letters are d s e f g n x X o b %%");
    return KV_E_VALUE;
}

static void fill(buf *out, const directive *d, int64_t n)
{
    for (; n > 0; n--)
        buf_put(out, d->fill, (size_t)d->fill_bytes);
}

/* n digits with a separator before each group of `size`, counted from the right. */
static void put_groups(buf *out, const char *digits, int64_t n, char separator, int size)
{
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 && separator && (n - i) % size == 0)
            buf_char(out, separator);
        buf_char(out, digits[i]);
    }
}

/* A number: what stands before its digits, the digits of its whole part, and the rest. */
typedef struct number {
    char before[4]; /* sign and prefix */
    const char *text;
    size_t whole; /* digits at the start of text */
} number;

/* Zeros fill a number as digits: they are grouped with them, and never begin with a separator. */
static void put_zero_filled(buf *out, const directive *d, const number *x, int size)
{
    const char *rest = x->text + x->whole;
    int64_t room = d->width - (int64_t)(strlen(x->before) + strlen(rest)), n = (int64_t)x->whole;
    own_buf digits = {0};
    while (n + (d->group && n > 0 ? (n - 1) / size : 0) < room)
        n++;
    buf_repeat(&digits, '0', n - (int64_t)x->whole);
    buf_put(&digits, x->text, x->whole);
    buf_add(out, x->before);
    put_groups(out, buf_text(&digits), n, d->group, size);
    buf_add(out, rest);
    out->failed |= digits.failed;
}

static void put_number(buf *out, const directive *d, bool negative, const char *prefix,
                       const char *text)
{
    number x = {.text = text, .whole = strspn(text, "0123456789")};
    int size = 3;
    snprintf(x.before, sizeof x.before, "%s%s",
             negative         ? "-"
             : d->sign == '+' ? "+"
             : d->sign == ' ' ? " "
                              : "",
             prefix);
    if (d->letter && strchr("xXob", d->letter)) {
        x.whole = strlen(text);
        size = 4;
    }
    char align = d->align ? d->align : *d->fill == '0' ? '=' : '>';
    if (align == '=' && *d->fill == '0') {
        put_zero_filled(out, d, &x, size);
        return;
    }
    int64_t groups = d->group && x.whole > 0 ? (int64_t)(x.whole - 1) / size : 0;
    int64_t pad = d->width - (int64_t)(strlen(x.before) + strlen(text)) - groups;
    int64_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    fill(out, d, left);
    buf_add(out, x.before);
    if (align == '=')
        fill(out, d, pad);
    put_groups(out, text, (int64_t)x.whole, d->group, size);
    buf_add(out, text + x.whole);
    if (align == '<' || align == '^')
        fill(out, d, pad - left);
}

static void put_text(buf *out, const directive *d, const char *text)
{
    const char *end = text;
    int64_t n = 0;
    for (; *end && n != d->precision; n++)
        end = next_character(end);
    int64_t pad = d->width > n ? d->width - n : 0;
    int64_t left = d->align == '>' ? pad : d->align == '^' ? pad / 2 : 0;
    fill(out, d, left);
    buf_put(out, text, (size_t)(end - text));
    fill(out, d, pad - left);
}

/* A float without a letter, to p digits: as g, but with .0 behind a whole number, and with an
 * exponent from 10**(p-1) on. */
static void plain_digits(char *text, size_t size, double v, int p)
{
    if (p < 1)
        p = 1;
    num_fixed(text, size, v, p - 1, 'e');
    char *e = strchr(text, 'e');
    int exponent = atoi(e + 1);
    if (exponent >= -4 && exponent < p - 1) {
        num_fixed(text, size, v, p, 'g');
        if (!strchr(text, '.'))
            strcat(text, ".0");
    } else if (strchr(text, '.')) {
        char *last = e - 1;
        while (*last == '0')
            last--;
        memmove(*last == '.' ? last : last + 1, e, strlen(e) + 1);
    }
}

/* # keeps the point of a float, and with g the zeros at its end. */
static void keep_point(char *text, double v, int p, char letter)
{
    if (letter == 'g') {
        p = p < 1 ? 1 : p;
        num_fixed(text, FLOAT_MAX, v, p - 1, 'e');
        int exponent = atoi(strchr(text, 'e') + 1);
        if (exponent >= -4 && exponent < p)
            num_fixed(text, FLOAT_MAX, v, p - 1 - exponent, 'f');
    }
    size_t digits = strspn(text, "0123456789");
    if (text[digits] == '.')
        return;
    memmove(text + digits + 1, text + digits, strlen(text + digits) + 1);
    text[digits] = '.';
}

/* The letter says how: e f g, their capitals, % or none. */
static int put_float(buf *out, const directive *d, host x, kv_err *e)
{
    static const char lower[] = "efg";
    if (!host_is_number(x))
        return kv_err_set(e, KV_E_DTYPE, "%s%c takes a number, not %s", d->mark, d->letter,
                          host_kind_name(x.kind));
    double v = host_number(x) * (d->letter == '%' ? 100 : 1);
    char text[FLOAT_MAX + 2] = "inf";
    bool capital = d->letter >= 'E' && d->letter <= 'G';
    char letter = capital ? lower[d->letter - 'E'] : d->letter == '%' ? 'f' : d->letter;
    int precision = d->precision < 0 ? 6 : d->precision;
    if (isnan(v))
        memcpy(text, "nan", 4);
    else if (isfinite(v) && d->letter)
        num_fixed(text, FLOAT_MAX, fabs(v), precision, letter);
    else if (isfinite(v) && d->precision >= 0)
        plain_digits(text, FLOAT_MAX, fabs(v), d->precision);
    else if (isfinite(v))
        num_repr(text, fabs(v), NUM_BINARY64);
    if (d->prefix && isfinite(v) && d->letter)
        keep_point(text, fabs(v), precision, letter);
    if (d->letter == '%')
        strcat(text, "%");
    for (char *c = text; capital && *c; c++)
        *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
    put_number(out, d, signbit(v) && !isnan(v), "", text);
    return KV_OK;
}

/* The whole number that x is. %d cuts fractions off, as in Python. */
static int whole_number(const directive *d, host x, int64_t *out, kv_err *e)
{
    *out = x.u.integer;
    if (x.kind == HOST_BOOL || x.kind == HOST_INT)
        return KV_OK;
    bool cut = *d->mark && d->letter != 'x' && d->letter != 'X' && d->letter != 'o';
    char letter = d->letter ? d->letter : 'd';
    if (x.kind == HOST_FLOAT && fabs(x.u.number) < 0x1p63 &&
        (cut || x.u.number == floor(x.u.number))) {
        *out = (int64_t)x.u.number;
        return KV_OK;
    }
    if (x.kind == HOST_FLOAT && isfinite(x.u.number) && !cut)
        return kv_err_set(e, KV_E_DTYPE, "%s%c takes a whole number, not a fraction", d->mark,
                          letter);
    if (x.kind == HOST_FLOAT)
        return kv_err_set(e, KV_E_VALUE, "%s%c takes a number that fits into 64 bits", d->mark,
                          letter);
    return kv_err_set(e, KV_E_DTYPE, "%s%c takes a whole number, not %s", d->mark, letter,
                      host_kind_name(x.kind));
}

static int put_integer(buf *out, const directive *d, host x, kv_err *e)
{
    int64_t v;
    TRY(whole_number(d, x, &v, e));
    char digits[65], *at = digits + sizeof digits - 1;
    uint64_t size = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    unsigned base = d->letter == 'x' || d->letter == 'X' ? 16
                    : d->letter == 'o'                   ? 8
                    : d->letter == 'b'                   ? 2
                                                         : 10;
    *at = '\0';
    do {
        *--at = (d->letter == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[size % base];
        size /= base;
    } while (size > 0);
    own_buf all = {0};
    int64_t n = (int64_t)strlen(at);
    buf_repeat(&all, '0', d->precision > n ? d->precision - n : 0);
    buf_add(&all, at);
    const char *prefix = d->letter == 'x'   ? "0x"
                         : d->letter == 'X' ? "0X"
                         : d->letter == 'o' ? "0o"
                         : d->letter == 'b' ? "0b"
                                            : "";
    put_number(out, d, v < 0, d->prefix ? prefix : "", buf_text(&all));
    return buf_check(&all, e);
}

static int put_any(buf *out, const directive *d, host x, bool repr, kv_err *e)
{
    own_buf text = {0};
    host_print(&text, x, repr);
    put_text(out, d, buf_text(&text));
    return buf_check(&text, e);
}

/* ---- Formats --------------------------------------------------------------------------------- */

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
        if (!d.letter || !strchr("dsrefgxiuoEFGX", d.letter))
            return bad_letter(&d, e);
        if (used == n)
            return kv_err_set(e, KV_E_VALUE, "the text has more %% directives than values (%d)", n);
        host x = args[used++];
        TRY(strchr("efgEFG", d.letter)   ? put_float(out, &d, x, e)
            : strchr("diuxXo", d.letter) ? put_integer(out, &d, x, e)
                                         : put_any(out, &d, x, d.letter == 'r', e));
    }
    if (used < n)
        return kv_err_set(e, KV_E_VALUE, "the text has %d %% directive%s for %d values", used,
                          used == 1 ? "" : "s", n);
    return buf_check(out, e);
}

/* Formats a text, and refuses the directives that Python refuses for a text. */
static int put_text_field(buf *out, const directive *d, host x, kv_err *e)
{
    if (d->letter && d->letter != 's')
        return kv_err_set(e, KV_E_DTYPE, "%c takes a %snumber, not text", d->letter,
                          strchr("dxXob", d->letter) ? "whole " : "");
    if (d->sign || d->prefix || d->group || d->align == '=')
        return kv_err_set(e, KV_E_VALUE, "a text has no sign, no prefix and no groups of digits");
    put_text(out, d, x.u.text);
    return buf_check(out, e);
}

static int put_number_field(buf *out, const directive *d, host x, kv_err *e)
{
    char c = d->letter;
    bool whole = c ? strchr("dxXob", c) != NULL : x.kind != HOST_FLOAT;
    if (c == 's')
        return kv_err_set(e, KV_E_DTYPE, "s takes a text, not %s", host_kind_name(x.kind));
    if (whole && d->precision >= 0)
        return kv_err_set(e, KV_E_VALUE, "a whole number has no precision");
    if (!whole && d->prefix && !c)
        return kv_err_set(e, KV_E_VALUE, "# is for x o b e f g %%");
    if (d->group == ',' && c && strchr("xXob", c))
        return kv_err_set(e, KV_E_VALUE, "the groups of %c are separated by _", c);
    bool finite = x.kind != HOST_FLOAT || isfinite(x.u.number);
    directive plain = *d;
    plain.group = finite ? d->group : 0;
    return whole ? put_integer(out, &plain, x, e) : put_float(out, &plain, x, e);
}

int host_format_field(buf *out, host x, const char *spec, kv_err *e)
{
    directive d;
    if (!spec || !*spec) {
        host_print(out, x, false);
        return buf_check(out, e);
    }
    const char *end = read_field(&d, spec, e);
    if (!end)
        return KV_E_VALUE;
    if (d.letter == 'n' && !d.group)
        d.letter = x.kind == HOST_FLOAT ? 'g' : 'd';
    if (d.letter && !strchr("dsefgxobEFGX%", d.letter))
        return bad_letter(&d, e);
    if (*end)
        return kv_err_set(e, KV_E_VALUE, "a field ends behind its letter %c", d.letter);
    if (x.kind == HOST_NONE)
        return kv_err_set(e, KV_E_DTYPE, "a format takes a number or a text, not none");
    TRY(x.kind == HOST_TEXT ? put_text_field(out, &d, x, e) : put_number_field(out, &d, x, e));
    return buf_check(out, e);
}
