/* The operations of programs: a line each, from which the enum, the loops, their tables and the
 * text for GPUs are made.
 *
 * Legend: name; its loops in kernel_loops.h; for which types there is one (F float32 and float64, S
 * the same, and one more whose operands have factors, V the same as F, written in kernel_loops.h, I
 * int64, _ none); how many arrays it reads, a b c; the kind of function that expressions, rules and
 * host numbers call by the name of the loop (element.h; NONE: none); its text in tests; and its
 * expression, for CPUs and GPUs. There OF_T(f) is the function of the type: f of double, ff of
 * float, fi of int64, in <math.h>, arith.h and curve.h.
 *
 * Comparisons, logic, isfinite and isnan stand together, since prog_build.c asks for them by range;
 * and so do operations that cost several divisions (plan_levels.c): // to **, and exp to acos.
 */
#pragma once

/* clang-format off */
/* a, b, c are of one type t; comparisons, logic, isfinite and isnan give 1 or 0 in t.
 * - floordiv and mod: floor, and the sign of b, as Python; of an integer by 0: 0
 * - pow: t(pow(a, b)) by the binary64 pow; of integers 0 for b < 0 and a not 1 or -1
 * - exp, log: in binary64, rounded
 * - tanh, sin, cos, asin, acos: see curve.h
 * - sign: (a > 0) - (a < 0); round: half to even
 * - min, max: nan if either is
 * - clip: a > c ? c : a < b ? b : a */
#define PROG_OPS(X) \
    X(PROG_ADD,      add,      S, I, 2, NONE,     "a + b",          OF_T(arith_add)(a, b)) \
    X(PROG_SUB,      sub,      S, I, 2, NONE,     "a - b",          OF_T(arith_sub)(a, b)) \
    X(PROG_MUL,      mul,      S, I, 2, NONE,     "a * b",          OF_T(arith_mul)(a, b)) \
    X(PROG_DIV,      div,      S, _, 2, NONE,     "a / b",          a / b) \
    X(PROG_FLOORDIV, floordiv, F, I, 2, NONE,     "a // b",         OF_T(arith_floordiv)(a, b)) \
    X(PROG_MOD,      mod,      F, I, 2, NONE,     "a % b",          OF_T(arith_mod)(a, b)) \
    X(PROG_POW,      pow,      F, I, 2, NONE,     "a ** b",         OF_T(arith_pow)(a, b)) \
    X(PROG_NEG,      neg,      F, I, 1, NONE,     "-a",             OF_T(arith_neg)(a)) \
    X(PROG_ABS,      abs,      F, I, 1, ONE,      "abs(a)",         OF_T(arith_abs)(a)) \
    X(PROG_SQRT,     sqrt,     F, _, 1, FRACTION, "sqrt(a)",        OF_T(sqrt)(a)) \
    X(PROG_EXP,      exp,      F, _, 1, FRACTION, "exp(a)",         OF_T(arith_exp)(a)) \
    X(PROG_LOG,      log,      F, _, 1, FRACTION, "log(a)",         OF_T(arith_log)(a)) \
    X(PROG_TANH,     tanh,     F, _, 1, FRACTION, "tanh(a)",        OF_T(curve_tanh)(a)) \
    X(PROG_SIN,      sin,      V, _, 1, FRACTION, "sin(a)",         OF_T(curve_any_sin)(a)) \
    X(PROG_COS,      cos,      V, _, 1, FRACTION, "cos(a)",         OF_T(curve_any_cos)(a)) \
    X(PROG_ASIN,     asin,     F, _, 1, FRACTION, "asin(a)",        OF_T(curve_asin)(a)) \
    X(PROG_ACOS,     acos,     F, _, 1, FRACTION, "acos(a)",        OF_T(curve_acos)(a)) \
    X(PROG_SIGN,     sign,     F, I, 1, ONE,      "sign(a)",        (a > 0) - (a < 0)) \
    X(PROG_FLOOR,    floor,    F, _, 1, WHOLE,    "floor(a)",       OF_T(floor)(a)) \
    X(PROG_CEIL,     ceil,     F, _, 1, WHOLE,    "ceil(a)",        OF_T(ceil)(a)) \
    X(PROG_ROUND,    round,    F, _, 1, WHOLE,    "round(a)",       OF_T(rint)(a)) \
    X(PROG_MIN,      min,      F, I, 2, NONE,     "min(a, b)", \
      ((a < b) | (a != a)) ? a : b) \
    X(PROG_MAX,      max,      F, I, 2, NONE,     "max(a, b)", \
      ((a > b) | (a != a)) ? a : b) \
    X(PROG_EQ,       eq,       F, I, 2, NONE,     "a == b",         a == b) \
    X(PROG_NE,       ne,       F, I, 2, NONE,     "a != b",         a != b) \
    X(PROG_LT,       lt,       F, I, 2, NONE,     "a < b",          a < b) \
    X(PROG_LE,       le,       F, I, 2, NONE,     "a <= b",         a <= b) \
    X(PROG_GT,       gt,       F, I, 2, NONE,     "a > b",          a > b) \
    X(PROG_GE,       ge,       F, I, 2, NONE,     "a >= b",         a >= b) \
    X(PROG_AND,      and,      F, I, 2, NONE,     "a and b",        (a != 0) & (b != 0)) \
    X(PROG_OR,       or,       F, I, 2, NONE,     "a or b",         (a != 0) | (b != 0)) \
    X(PROG_NOT,      not,      F, I, 1, NONE,     "not a",          a == 0) \
    X(PROG_ISFINITE, isfinite, F, _, 1, TEST,     "isfinite(a)",    a - a == 0) \
    X(PROG_ISNAN,    isnan,    F, _, 1, TEST,     "isnan(a)",       a != a) \
    X(PROG_WHERE,    where,    F, I, 3, NONE,     "where(a, b, c)", a != 0 ? b : c) \
    X(PROG_CLIP,     clip,     F, I, 3, NONE,     "clip(a, b, c)",  a > c ? c : a < b ? b : a)
/* clang-format on */
