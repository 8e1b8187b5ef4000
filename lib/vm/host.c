/* Operators and functions of host numbers. */
#include "vm/host.h"

#include <math.h>
#include <string.h>

#include "base/stop.h"
#include "vm/arith.h"
#include "vm/element.h"
#include "vm/kernel.h"

/* A bool counts as an integer. */
static bool is_integer(host x)
{
    return x.kind == HOST_BOOL || x.kind == HOST_INT;
}

/* ---- Operators ------------------------------------------------------------------------------- */

int host_unary(ast_op op, host x, host *out, kv_err *e)
{
    if (op == OP_NOT) {
        *out = host_bool(!host_truth(x));
        return KV_OK;
    }
    if (x.kind == HOST_NONE) {
        *out = x;
        return KV_OK;
    }
    if (!host_is_number(x))
        return kv_err_set(e, KV_E_DTYPE, "%s takes a number, not %s", ast_op_text(op),
                          host_kind_name(x.kind));
    if (x.kind == HOST_FLOAT)
        *out = host_float(op == OP_NEG ? -x.u.number : x.u.number);
    else if (op == OP_NEG && x.u.integer == INT64_MIN)
        return kv_err_set(e, KV_E_VALUE, "-(%lld) does not fit into 64 bits",
                          (long long)x.u.integer);
    else
        *out = host_int(op == OP_NEG ? -x.u.integer : x.u.integer);
    return KV_OK;
}

/* a ** b for b >= 0. Returns whether it overflows. */
static bool power_overflows(int64_t a, int64_t b, int64_t *out)
{
    int64_t x = 1;
    for (;;) {
        if ((b & 1) && __builtin_mul_overflow(x, a, &x))
            return true;
        b >>= 1;
        if (b == 0)
            break;
        if (__builtin_mul_overflow(a, a, &a))
            return true;
    }
    *out = x;
    return false;
}

/* What Python refuses for numbers; elements of arrays become inf and nan instead. */
static int check_zero(ast_op op, double x, double y, kv_err *e)
{
    bool divides = op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD;
    if (op == OP_POW && x == 0 && y < 0)
        return kv_err_set(e, KV_E_VALUE, "0 has no negative powers");
    if (!divides || y != 0)
        return KV_OK;
    kv_err_set(e, KV_E_VALUE, "a number is divided by 0");
    kv_err_hint(e, "arrays give inf or nan: array(x) %s 0", ast_op_text(op));
    return KV_E_VALUE; /* also where nobody asks why */
}

static int integer_binary(ast_op op, int64_t a, int64_t b, host *out, kv_err *e)
{
    int64_t x = 0;
    bool over = false;
    if (op == OP_ADD)
        over = __builtin_add_overflow(a, b, &x);
    else if (op == OP_SUB)
        over = __builtin_sub_overflow(a, b, &x);
    else if (op == OP_MUL)
        over = __builtin_mul_overflow(a, b, &x);
    else if (op == OP_FLOORDIV)
        over = a == INT64_MIN && b == -1;
    else if (op == OP_POW)
        over = power_overflows(a, b, &x);
    if (over) {
        kv_err_set(e, KV_E_VALUE, "%lld %s %lld does not fit into 64 bits", (long long)a,
                   ast_op_text(op), (long long)b);
        kv_err_hint(e, "a float holds larger numbers, with 53 bits: float(x)");
        return KV_E_VALUE;
    }
    if (op == OP_FLOORDIV)
        x = arith_floordivi(a, b);
    else if (op == OP_MOD)
        x = arith_modi(a, b);
    *out = host_int(x);
    return KV_OK;
}

/* An operation on numbers, by the loop that computes arrays, so that both give the same bits. */
static double of_floats(prog_op op, double x, double y)
{
    double out;
    kernel_tables(0)->run[PROG_F64][op](&out, &x, &y, &y, 1);
    return out;
}

/* -1, 0, 1 for smaller, equal, larger; 2 when a nan is among them. Exact for every pair. */
static int order_int_float(int64_t a, double b)
{
    if (isnan(b))
        return 2;
    if (b >= 0x1p63)
        return -1;
    if (b < -0x1p63)
        return 1;
    int64_t whole = (int64_t)b;
    if (a != whole)
        return a < whole ? -1 : 1;
    double rest = b - (double)whole;
    return rest > 0 ? -1 : rest < 0;
}

static int order_numbers(host x, host y)
{
    if (is_integer(x) && is_integer(y))
        return (x.u.integer > y.u.integer) - (x.u.integer < y.u.integer);
    if (is_integer(x))
        return order_int_float(x.u.integer, y.u.number);
    if (is_integer(y)) {
        int o = order_int_float(y.u.integer, x.u.number);
        return o == 2 ? 2 : -o;
    }
    double a = x.u.number, b = y.u.number;
    return isnan(a) || isnan(b) ? 2 : (a > b) - (a < b);
}

static int compare(ast_op op, host x, host y, host *out, kv_err *e)
{
    int order;
    if (x.kind == HOST_NONE || y.kind == HOST_NONE)
        order = x.kind == y.kind && op != OP_LE && op != OP_GE ? 0 : 2;
    else if (x.kind == HOST_TEXT && y.kind == HOST_TEXT) {
        int c = strcmp(x.u.text, y.u.text);
        order = (c > 0) - (c < 0);
    } else if (host_is_number(x) && host_is_number(y))
        order = order_numbers(x, y);
    else if (op == OP_EQ || op == OP_NE)
        order = 2;
    else
        return kv_err_set(e, KV_E_DTYPE, "%s cannot compare %s with %s", ast_op_text(op),
                          host_kind_name(x.kind), host_kind_name(y.kind));
    bool holds = op == OP_EQ   ? order == 0
                 : op == OP_NE ? order != 0
                 : op == OP_LT ? order == -1
                 : op == OP_LE ? order <= 0
                 : op == OP_GT ? order == 1
                               : order == 0 || order == 1;
    *out = host_bool(holds);
    return KV_OK;
}

static int join(host x, host y, host *out, arena *a, kv_err *e)
{
    size_t n = strlen(x.u.text), m = strlen(y.u.text);
    char *text = arena_alloc(a, n + m + 1, e);
    if (!text)
        return KV_E_MEMORY;
    memcpy(text, x.u.text, n);
    memcpy(text + n, y.u.text, m);
    *out = host_text(text);
    return KV_OK;
}

static int repeat_text(host x, int64_t times, host *out, arena *a, kv_err *e)
{
    int64_t n = (int64_t)strlen(x.u.text), bytes;
    times = times < 0 ? 0 : times;
    if (__builtin_mul_overflow(n, times, &bytes) || bytes == INT64_MAX)
        return kv_err_set(e, KV_E_MEMORY, "no memory for a text %lld times", (long long)times);
    char *text = arena_alloc(a, (size_t)bytes + 1, e);
    if (!text)
        return KV_E_MEMORY;
    int64_t most = n > 0 && n < STOP_EVERY ? STOP_EVERY / n * n : n;
    for (int64_t done = 0, m; done < bytes; done += m) {
        m = done == 0 ? n : done < most ? done : most; /* what is there, as often as it fits */
        m = m < bytes - done ? m : bytes - done;
        memcpy(text + done, done ? text : x.u.text, (size_t)m);
        if (stop_asked())
            return stop_error(e);
    }
    text[bytes] = '\0';
    *out = host_text(text);
    return KV_OK;
}

int host_format_text(host *out, const char *fmt, const host *args, int n, arena *a, kv_err *e)
{
    own_buf b = {0};
    TRY(host_format(&b, fmt, args, n, e));
    char *text = arena_text(a, buf_text(&b), b.len, e);
    if (text)
        *out = host_text(text);
    return text ? KV_OK : KV_E_MEMORY;
}

/* The quotient of two integers, rounded once, as Python has it: doubles hold them up to 2^53. */
static double divide_integers(int64_t x, int64_t y)
{
    const int64_t exact = (int64_t)1 << 53;
    if (x >= -exact && x <= exact && y >= -exact && y <= exact)
        return (double)x / (double)y;
    unsigned __int128 n = x < 0 ? -(unsigned __int128)x : (unsigned __int128)x;
    uint64_t d = y < 0 ? -(uint64_t)y : (uint64_t)y;
    int up = 0; /* n is as large as it can be, so that the quotient has more than 53 bits */
    for (; n && !(n >> 127); up++)
        n <<= 1;
    unsigned __int128 q = n / d;
    q |= n % d != 0; /* what is left decides a tie */
    double size = ldexp((double)q, -up);
    return (x < 0) != (y < 0) ? -size : size;
}

int host_binary(ast_op op, host x, host y, host *out, arena *a, kv_err *e)
{
    if (op >= OP_EQ && op <= OP_GE)
        return compare(op, x, y, out, e);
    if (x.kind == HOST_TEXT && op == OP_MOD)
        return host_format_text(out, x.u.text, &y, 1, a, e);
    if (x.kind == HOST_TEXT && y.kind == HOST_TEXT && op == OP_ADD)
        return join(x, y, out, a, e);
    if (op == OP_MUL && x.kind == HOST_TEXT && is_integer(y))
        return repeat_text(x, y.u.integer, out, a, e);
    if (op == OP_MUL && y.kind == HOST_TEXT && is_integer(x))
        return repeat_text(y, x.u.integer, out, a, e);
    if (!host_is_number(x) || !host_is_number(y)) {
        kv_err_set(e, KV_E_DTYPE, "%s takes numbers, not %s and %s", ast_op_text(op),
                   host_kind_name(x.kind), host_kind_name(y.kind));
        if (op == OP_ADD && (x.kind == HOST_TEXT || y.kind == HOST_TEXT))
            kv_err_hint(e, "str(x) is the text of a number; f\"{x}\" holds one");
        return KV_E_DTYPE;
    }
    bool integers = is_integer(x) && is_integer(y);
    if (integers && (op == OP_DIV || !(op == OP_POW && y.u.integer < 0))) {
        TRY(check_zero(op, host_number(x), host_number(y), e));
        if (op != OP_DIV)
            return integer_binary(op, x.u.integer, y.u.integer, out, e);
        *out = host_float(divide_integers(x.u.integer, y.u.integer));
        return KV_OK;
    }
    *out = host_float(0);
    return host_float_binary(op, host_number(x), host_number(y), &out->u.number, e);
}

int host_float_binary(ast_op op, double x, double y, double *out, kv_err *e)
{
    TRY(check_zero(op, x, y, e));
    *out = of_floats(element_op(op), x, y);
    if (op != OP_POW || !isfinite(x) || !isfinite(y))
        return KV_OK;
    /* Python gives no inf, and a complex number for the root of a negative one */
    if (isinf(*out))
        return kv_err_set(e, KV_E_VALUE, "the power is too large for a float");
    if (x < 0 && y != floor(y))
        return kv_err_set(e, KV_E_VALUE, "the root of a negative number is complex");
    return KV_OK;
}

/* ---- Functions ------------------------------------------------------------------------------- */

static int of_its_own(prog_op op, host x, host *out, kv_err *e)
{
    const int64_t i = x.u.integer;
    /* elements wrap, host numbers are checked */
    if (op == PROG_ABS && x.kind != HOST_FLOAT && i < 0)
        return host_unary(OP_NEG, x, out, e);
    *out = x.kind == HOST_FLOAT ? host_float(of_floats(op, x.u.number, 0)) : host_int(i);
    if (x.kind != HOST_FLOAT)
        kernel_best()->run[PROG_I64][op](&out->u.integer, &i, &i, &i, 1);
    return KV_OK;
}

static host whole(prog_op op, host x)
{
    if (is_integer(x))
        return host_int(x.u.integer);
    double y = of_floats(op, x.u.number, 0);
    return y >= -0x1p63 && y < 0x1p63 ? host_int((int64_t)y) : host_float(y);
}

static bool is_nan(host x)
{
    return x.kind == HOST_FLOAT && isnan(x.u.number);
}

/* The first of the smallest (order -1) or largest (order 1) arguments; nan if any is. */
static host extreme(const host *args, int n, int order)
{
    host best = args[0];
    for (int i = 1; i < n && !is_nan(best); i++)
        if (is_nan(args[i]) || order_numbers(args[i], best) == order)
            best = args[i];
    return best;
}

static int clip(const host *args, int n, host *out, kv_err *e)
{
    host x = args[0], low = args[1], high = n == 3 ? args[2] : args[1];
    *out = x;
    if (n == 2) {
        /* clip(x, c) clips to -c .. c, but only for c > 0 */
        if (!host_is_number(high) || !(host_number(high) > 0))
            return KV_OK;
        TRY(host_unary(OP_NEG, high, &low, e));
    }
    if (host_is_number(high) && order_numbers(x, high) == 1)
        *out = high;
    else if (host_is_number(low) && order_numbers(x, low) == -1)
        *out = low;
    return KV_OK;
}

static host ends_with(const host *args, int n)
{
    size_t len = strlen(args[0].u.text);
    bool found = false;
    for (int i = 1; i < n; i++) {
        size_t m = strlen(args[i].u.text);
        if (m <= len && memcmp(args[0].u.text + len - m, args[i].u.text, m) == 0)
            found = true;
    }
    return host_bool(found);
}

static int call(const element_function *f, const host *args, int n, host *out, kv_err *e)
{
    switch (f->kind) {
    case FN_ONE:
        return of_its_own(f->op, args[0], out, e);
    case FN_WHOLE:
        *out = whole(f->op, args[0]);
        return KV_OK;
    case FN_FRACTION:
        *out = host_float(of_floats(f->op, host_number(args[0]), 0));
        return KV_OK;
    case FN_TEST:
        *out = host_bool(of_floats(f->op, host_number(args[0]), 0) != 0);
        return KV_OK;
    case FN_TWO:
        *out = extreme(args, n, f->op == PROG_MIN ? -1 : 1);
        return KV_OK;
    case FN_CLIP:
        return clip(args, n, out, e);
    case FN_WHERE:
        *out = host_truth(args[0]) ? args[1] : args[2];
        return KV_OK;
    default: /* FN_ENDSWITH; host_call lets no function of rules come here */
        *out = ends_with(args, n);
        return KV_OK;
    }
}

int host_call(const char *name, const host *args, int n, host *out, kv_err *e)
{
    const element_function *f = element_find(name);
    if (!f || element_is_of_rules(f))
        return kv_err_set(e, KV_E_USAGE, "there is no function %s of numbers", name);
    return host_apply(f, args, n, out, e);
}

int host_apply(const element_function *f, const host *args, int n, host *out, kv_err *e)
{
    TRY(element_check_count(f, n, e));
    for (int i = 0; i < n; i++) {
        char takes = f->takes;
        if (takes == 'a' || (takes == 'm' && i > 0 && args[i].kind == HOST_NONE))
            continue;
        bool fits = takes == 't' ? args[i].kind == HOST_TEXT : host_is_number(args[i]);
        if (!fits)
            return kv_err_set(e, KV_E_DTYPE, "%s takes %s, not %s", f->name,
                              takes == 't' ? "texts" : "numbers", host_kind_name(args[i].kind));
    }
    return call(f, args, n, out, e);
}
