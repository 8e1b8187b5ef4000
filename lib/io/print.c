/* Arrays as numpy prints them.
 *
 * All elements shown share one layout, so they are visited before anything is written: first for
 * their range, which decides between positions and exponents, then for their widths. A float is
 * measured, and without an exponent written, with its shortest digits; one that needs more of them
 * behind the point than the precision is rounded from its exact value. With exponents all get as
 * many digits as the longest, from their exact values. The visits and the writing walk the same
 * axes, and of a long axis only its two ends.
 */
#include "io/print.h"

#include <math.h>
#include <string.h>

#include "base/stop.h"
#include "io/scalar.h"

print_style print_style_default(void)
{
    return (print_style){PRINT_NUMPY, 8, 1000, 3, 75, false};
}

/* The layout of the floats of an array. */
typedef struct float_layout {
    bool exponents;  /* 1.5e+00, not 1.5 */
    int precision;   /* digits after the point at most; with exponents: exactly */
    int left, right; /* characters in front of the point and behind it */
    int exp_digits;
    bool finite, infinite, below; /* there are finite numbers, others, -inf */
    double min, max;              /* of the magnitudes that are neither 0 nor infinite */
} float_layout;

typedef struct printer {
    buf *out;
    const print_style *style;
    const void *data;
    kv_dtype dtype;
    int ndim;
    const int64_t *shape;
    int64_t stride[KV_MAX_NDIM]; /* in elements */
    bool shorten;                /* show the ends of long axes only */
    bool legacy;
    const char *separator;
    int prefix;   /* characters in front of the first bracket */
    size_t line;  /* where the newest line begins in out */
    int word_end; /* the column that a word of the first axis must not pass */
    int int_width;
    float_layout f;
    int64_t visited; /* elements */
    bool stopped;
} printer;

/* ---- Floats as text --------------------------------------------------------------------- */

/* A finite number as text: digits, a point, digits, and perhaps an exponent. */
typedef struct float_text {
    char text[400];
    int left, right; /* characters in front of the point, sign included, and behind it */
    int exponent;    /* with exponents: its value */
} float_text;

/* Fills t->left and t->right from t->text, which it ends behind the last digit that is not 0 (or
 * keeps all zeros). Adds a point where there is none. */
static void measure(float_text *t, bool keep_zeros)
{
    size_t n = strlen(t->text);
    char *point = memchr(t->text, '.', n);
    if (!point) {
        point = t->text + n;
        memcpy(point, ".", 2);
        n++;
    }
    while (!keep_zeros && t->text[n - 1] == '0')
        n--;
    t->text[n] = '\0';
    t->left = (int)(point - t->text);
    t->right = (int)(t->text + n - point) - 1;
}

/* 12.5, 3., -0. for |x| < 1e8. Digits in front of the point are always those of the exact value,
 * even where fewer would name the number. */
static void positional(float_text *t, double x, num_width width, int precision)
{
    if (x != 0 && x == floor(x))
        num_int(t->text, (int64_t)x);
    else
        num_repr(t->text, x, width);
    measure(t, false);
    if (t->right > precision) {
        num_fixed(t->text, sizeof t->text, x, precision, 'f');
        measure(t, false);
    }
}

/* The digits of a number with an exponent, 1.25 for 1.25e-07: the shortest ones, but at most
 * `precision` behind the point; or exactly as many, where the shortest ones are used if there are
 * so many; or, in the older style, exactly as many always from the exact value. */
typedef enum digit_count { AT_MOST, EXACTLY, EXACTLY_OLD } digit_count;

static void scientific(float_text *t, double x, num_width width, int precision, digit_count count)
{
    num_digits d = {0, 0, 1};
    if (x != 0)
        d = num_shortest(x, width);
    bool fits = count == AT_MOST ? d.n - 1 <= precision : d.n - 1 == precision;
    if (!fits || count == EXACTLY_OLD) {
        num_fixed(t->text, sizeof t->text, x, precision, 'e');
        char *e = strchr(t->text, 'e');
        int sign = e[1] == '-' ? -1 : 1;
        t->exponent = 0;
        for (const char *p = e + 2; *p; p++)
            t->exponent = t->exponent * 10 + sign * (*p - '0');
        *e = '\0';
    } else {
        char digits[NUM_TEXT_MAX];
        num_int(digits, (int64_t)d.digits);
        char *p = t->text;
        if (signbit(x))
            *p++ = '-';
        *p++ = digits[0];
        *p++ = '.';
        strcpy(p, digits + 1);
        t->exponent = d.exp10 + d.n - 1;
    }
    measure(t, count != AT_MOST);
}

static int count_digits(int x)
{
    int n = 1;
    for (x = x < 0 ? -x : x; x >= 10; x /= 10)
        n++;
    return n;
}

/* ---- Visits ----------------------------------------------------------------------------- */

/* Returns true if only the ends of the axis are shown. */
static bool is_cut(const printer *p, int axis)
{
    return p->shorten && p->shape[axis] / 2 >= p->style->edgeitems &&
           p->shape[axis] > 2 * (int64_t)p->style->edgeitems;
}

/* Counts an element; whether printing goes on. */
static bool goes_on(printer *p)
{
    if (++p->visited % 4096 == 0 && p->style->may_stop)
        p->stopped = p->stopped || stop_asked();
    return !p->stopped && !p->out->failed;
}

/* Calls `see` for every element that is shown. */
static void visit(printer *p, int axis, int64_t at, void (*see)(printer *p, int64_t at))
{
    if (axis == p->ndim) {
        see(p, at);
        return;
    }
    int64_t n = p->shape[axis], edge = p->style->edgeitems;
    bool cut = is_cut(p, axis);
    for (int64_t i = 0; i < n && goes_on(p); i++) {
        if (cut && i == edge)
            i = edge > 0 ? n - edge : n - 1;
        if (i < n)
            visit(p, axis + 1, at + i * p->stride[axis], see);
    }
}

static void see_range(printer *p, int64_t at)
{
    double x = scalar_float(p->dtype, p->data, at), size = fabs(x);
    if (!isfinite(x)) {
        p->f.infinite = true;
        p->f.below |= isinf(x) && x < 0;
        return;
    }
    p->f.finite = true;
    if (x == 0)
        return;
    if (p->f.max == 0 || size < p->f.min)
        p->f.min = size;
    if (size > p->f.max)
        p->f.max = size;
}

static void see_width(printer *p, int64_t at)
{
    double x = scalar_float(p->dtype, p->data, at);
    float_text t;
    if (!isfinite(x))
        return;
    if (p->f.exponents)
        scientific(&t, x, scalar_width(p->dtype), p->style->precision,
                   p->legacy ? EXACTLY_OLD : AT_MOST);
    else
        positional(&t, x, scalar_width(p->dtype), p->style->precision);
    /* The older style keeps a place for the sign. */
    int left = p->legacy ? t.left + (t.text[0] != '-') : t.left;
    if (left > p->f.left)
        p->f.left = left;
    if (t.right > p->f.right)
        p->f.right = t.right;
    if (p->f.exponents && count_digits(t.exponent) > p->f.exp_digits)
        p->f.exp_digits = count_digits(t.exponent);
}

static void see_int(printer *p, int64_t at)
{
    char text[NUM_TEXT_MAX];
    int n = num_int(text, scalar_int(p->dtype, p->data, at));
    if (n > p->int_width)
        p->int_width = n;
}

/* Finds the layout of a float array. */
static void lay_out_floats(printer *p)
{
    float_layout *f = &p->f;
    visit(p, 0, 0, see_range);
    /* numpy divides in the dtype: a float16 quotient may overflow. */
    double ratio = f->max > 0 ? num_narrow(f->max / f->min, scalar_width(p->dtype), NULL) : 1;
    f->exponents = f->max > 0 && (f->max >= 1e8 || f->min < 1e-4 || ratio > 1000);
    f->precision = p->style->precision;
    f->exp_digits = 2;
    visit(p, 0, 0, see_width);
    int behind = f->right;
    if (f->exponents) {
        f->precision = f->right;
        behind = f->right + f->exp_digits + 2;
        if (p->legacy)
            f->left = 3;
    }
    if (f->infinite) {
        /* "nan" and "-inf" reach from the left over the point and what is behind it. */
        int need = 3 + (p->legacy || f->below) - (behind + 1);
        if (need > f->left)
            f->left = need;
        if (2 - behind > f->left)
            f->left = 2 - behind;
    }
}

/* ---- Elements --------------------------------------------------------------------------- */

static void put_float(printer *p, double x)
{
    const float_layout *f = &p->f;
    float_text t;
    if (!isfinite(x)) {
        const char *word = isnan(x) ? "nan" : x < 0 ? "-inf" : "inf";
        int behind = f->exponents ? f->right + f->exp_digits + 2 : f->right;
        buf_repeat(p->out, ' ', f->left + behind + 1 - (int)strlen(word));
        buf_add(p->out, word);
        return;
    }
    if (f->exponents)
        scientific(&t, x, scalar_width(p->dtype), f->precision, p->legacy ? EXACTLY_OLD : EXACTLY);
    else
        positional(&t, x, scalar_width(p->dtype), f->precision);
    buf_repeat(p->out, ' ', f->left - t.left);
    buf_add(p->out, t.text);
    buf_repeat(p->out, ' ', f->right - t.right);
    if (f->exponents) {
        char digits[NUM_TEXT_MAX];
        int n = num_int(digits, t.exponent < 0 ? -t.exponent : t.exponent);
        buf_add(p->out, t.exponent < 0 ? "e-" : "e+");
        buf_repeat(p->out, '0', f->exp_digits - n);
        buf_add(p->out, digits);
    }
}

static void put_element(printer *p, int64_t at)
{
    if (kv_dtype_is_float(p->dtype)) {
        put_float(p, scalar_float(p->dtype, p->data, at));
    } else if (p->dtype == KV_BOOL) {
        bool x = scalar_int(p->dtype, p->data, at);
        buf_add(p->out, !x ? "False" : p->ndim ? " True" : "True");
    } else {
        char text[NUM_TEXT_MAX];
        int n = num_int(text, scalar_int(p->dtype, p->data, at));
        buf_repeat(p->out, ' ', p->int_width - n);
        buf_add(p->out, text);
    }
}

/* ---- Rows and axes ---------------------------------------------------------------------- */

/* Begins a new line below the items of an axis. */
static void new_line(printer *p, int axis)
{
    buf_char(p->out, '\n');
    p->line = p->out->len;
    buf_repeat(p->out, ' ', p->prefix + 1 + axis);
}

/* Moves the word that was written last to a new line if it passes the end of this one, unless it is
 * the first of its line: then that would not help. Each axis needs a column for its bracket. */
static void wrap(printer *p, size_t word, int axis)
{
    buf *b = p->out;
    int64_t indent = p->prefix + 1 + axis, end = p->word_end - (p->legacy ? 0 : axis);
    char text[sizeof(float_text)];
    size_t n = b->len - word;
    if (b->failed || (int64_t)(b->len - p->line) <= end || n > sizeof text ||
        (int64_t)(word - p->line) <= indent)
        return;
    memcpy(text, b->data + word, n);
    b->len = word;
    while (b->len > 0 && b->data[b->len - 1] == ' ')
        b->len--;
    new_line(p, axis);
    buf_put(b, text, n);
}

/* The last axis: words side by side. */
static void put_row(printer *p, int axis, int64_t at)
{
    int64_t n = p->shape[axis], edge = p->style->edgeitems;
    bool cut = is_cut(p, axis);
    for (int64_t i = 0; i < n && goes_on(p); i++) {
        if (cut && i == edge) {
            size_t word = p->out->len;
            buf_add(p->out, "...");
            wrap(p, word, axis);
            buf_add(p->out, p->legacy ? ", " : p->separator);
            i = edge > 0 ? n - edge : n - 1;
        }
        size_t word = p->out->len;
        put_element(p, at + i);
        wrap(p, word, axis);
        if (i + 1 < n)
            buf_add(p->out, p->separator);
    }
}

static void put_axis(printer *p, int axis, int64_t at);

/* Any other axis: items below each other, with an empty line more for each axis within. */
static void put_items(printer *p, int axis, int64_t at)
{
    int64_t n = p->shape[axis], edge = p->style->edgeitems;
    bool cut = is_cut(p, axis), comma = p->separator[0] == ',';
    int lines = p->ndim - axis - 1;
    for (int64_t i = 0; i < n && goes_on(p); i++) {
        if (cut && i == edge) {
            buf_add(p->out, p->legacy ? "..., " : comma ? "...," : "...");
            buf_repeat(p->out, '\n', p->legacy ? 0 : lines - 1);
            new_line(p, axis);
            i = edge > 0 ? n - edge : n - 1;
        }
        put_axis(p, axis + 1, at + i * p->stride[axis]);
        if (i + 1 < n) {
            if (comma)
                buf_char(p->out, ',');
            buf_repeat(p->out, '\n', lines - 1);
            new_line(p, axis);
        }
    }
}

static void put_axis(printer *p, int axis, int64_t at)
{
    if (axis == p->ndim) {
        put_element(p, at);
        return;
    }
    buf_char(p->out, '[');
    if (axis + 1 == p->ndim)
        put_row(p, axis, at);
    else
        put_items(p, axis, at);
    buf_char(p->out, ']');
}

/* ---- Whole arrays ----------------------------------------------------------------------- */

/* A single number as Python prints it. numpy's own str uses exponents below 1e-4 by value, where
 * the digits of a float32 may say 1e-4; the older style shows the number as a double. */
static void put_scalar(printer *p)
{
    char text[NUM_TEXT_MAX];
    if (!kv_dtype_is_float(p->dtype)) {
        put_element(p, 0);
        return;
    }
    double x = scalar_float(p->dtype, p->data, 0);
    num_width width = p->legacy ? NUM_BINARY64 : scalar_width(p->dtype);
    num_repr(text, x, width);
    if (x != 0 && fabs(x) < 1e-4 && strchr(text, '.') && !strchr(text, 'e'))
        strcpy(text, x < 0 ? "-1e-04" : "1e-04");
    buf_add(p->out, text);
}

/* The end of a repr: the dtype, unless the numbers imply it. */
static void put_repr_end(printer *p, bool empty)
{
    char shape[KV_MAX_NDIM * 24];
    bool implied = p->dtype == KV_FLOAT64 || p->dtype == KV_INT64 || p->dtype == KV_BOOL;
    if (implied && !empty) {
        buf_char(p->out, ')');
        return;
    }
    if (empty && p->ndim != 1)
        buf_printf(p->out, ", shape=%s", kv_shape_text(shape, sizeof shape, p->ndim, p->shape));
    buf_char(p->out, ',');
    const char *name = kv_dtype_name(p->dtype);
    size_t need = strlen("dtype=)") + strlen(name) + 1;
    if (p->out->len - p->line + need > (size_t)p->style->linewidth)
        buf_add(p->out, "\n      ");
    else
        buf_char(p->out, ' ');
    buf_printf(p->out, "dtype=%s)", name);
}

/* The end of a repr of mx.np: float32 is what it leaves out, where numpy leaves out what the
 * numbers imply, but that a bool is one shows. The end does not move to another line. */
static void put_mxnet_end(printer *p, bool empty, kv_ctx ctx)
{
    char text[KV_MAX_NDIM * 24];
    if (empty && p->ndim != 1)
        buf_printf(p->out, ", shape=%s", kv_shape_text(text, sizeof text, p->ndim, p->shape));
    if (p->dtype != KV_FLOAT32 && (p->dtype != KV_BOOL || empty))
        buf_printf(p->out, ", dtype=%s", kv_dtype_name(p->dtype));
    if (ctx.device != KV_CPU)
        buf_printf(p->out, ", ctx=%s", kv_ctx_text(text, ctx));
    buf_char(p->out, ')');
}

int print_array(buf *out, kv_array *a, const print_style *style, kv_err *e)
{
    bool repr = style->format == PRINT_REPR || style->format == PRINT_LEGACY_REPR ||
                style->format == PRINT_MXNET_REPR;
    printer p = {.out = out,
                 .style = style,
                 .dtype = kv_array_dtype(a),
                 .ndim = kv_array_ndim(a),
                 .shape = kv_array_shape(a),
                 .legacy = style->format == PRINT_LEGACY || style->format == PRINT_LEGACY_REPR,
                 .separator = repr ? ", " : " ",
                 .line = out->len};
    TRY(kv_array_read(a, &p.data, e));
    int64_t size = kv_array_size(a), stride = 1;
    for (int i = p.ndim - 1; i >= 0; i--) {
        p.stride[i] = stride;
        stride *= p.shape[i];
    }
    p.shorten = size > style->threshold;
    /* Behind the last word of a line a bracket or comma must fit, and one more sign in a repr. */
    p.word_end = style->linewidth - (p.legacy ? 0 : repr ? 2 : 1);
    if (repr) {
        buf_add(out, "array(");
        p.prefix = (int)strlen("array(");
    }
    if (size == 0)
        buf_add(out, "[]");
    else if (p.ndim == 0 && !repr)
        put_scalar(&p);
    else {
        if (kv_dtype_is_float(p.dtype))
            lay_out_floats(&p);
        else if (p.dtype != KV_BOOL)
            visit(&p, 0, 0, see_int);
        put_axis(&p, 0, 0);
    }
    kv_ctx ctx = kv_array_ctx(a);
    char text[KV_CTX_TEXT];
    if (style->format == PRINT_MXNET_REPR)
        put_mxnet_end(&p, size == 0, ctx);
    else if (style->format == PRINT_MXNET && ctx.device != KV_CPU && p.ndim > 0)
        buf_printf(out, " @%s", kv_ctx_text(text, ctx));
    else if (repr)
        put_repr_end(&p, size == 0);
    int rc = buf_check(out, e);
    return !rc && p.stopped ? stop_error(e) : rc;
}
