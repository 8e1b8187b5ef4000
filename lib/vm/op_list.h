/* The operations of programs, and the kernels that fuse several of them or take constants: a line
 * each, from which the enums, the loops, their tables and the text for GPUs are made.
 *
 * Legend: name; its loops in kernel_loops.h; for which types there is one (F float32 and float64, V
 * the same, written in kernel_loops.h, W float32 computed in binary64, I int64, _ none); how many
 * arrays it reads, a b c; the kind of function that expressions, rules and host numbers call by the
 * name of the loop (element.h; NONE: none); its text in tests; and its expression, for CPUs and
 * GPUs. There k0 to k3 are constants, and OF_T(f) is the function of the type: f of double, ff of
 * float, fi of int64, in <math.h>, arith.h and curve.h.
 *
 * Comparisons, logic, isfinite and isnan stand together, since prog_build.c asks for them by range;
 * and so do operations that cost several divisions (plan_levels.c): // to **, and exp to acos.
 */
#pragma once

/* clang-format off */
/* a, b, c are of one type t; comparisons, logic, isfinite and isnan give 1 or 0 in t.
 * - floordiv and mod: floor, and the sign of b, as Python; of an integer by 0: 0
 * - pow: t(pow(a, b)) by the binary64 pow; of integers 0 for b < 0
 * - exp, log: in binary64, rounded
 * - tanh, sin, cos, asin, acos: see curve.h
 * - sign: (a > 0) - (a < 0); round: half to even
 * - min, max: nan if either is
 * - clip: a > c ? c : a < b ? b : a */
#define PROG_OPS(X) \
    X(PROG_ADD,      add,      F, W, I, 2, NONE,     "a + b",          OF_T(arith_add)(a, b)) \
    X(PROG_SUB,      sub,      F, W, I, 2, NONE,     "a - b",          OF_T(arith_sub)(a, b)) \
    X(PROG_MUL,      mul,      F, W, I, 2, NONE,     "a * b",          OF_T(arith_mul)(a, b)) \
    X(PROG_DIV,      div,      F, W, _, 2, NONE,     "a / b",          a / b) \
    X(PROG_FLOORDIV, floordiv, F, _, I, 2, NONE,     "a // b",         OF_T(arith_floordiv)(a, b)) \
    X(PROG_MOD,      mod,      F, _, I, 2, NONE,     "a % b",          OF_T(arith_mod)(a, b)) \
    X(PROG_POW,      pow,      F, _, I, 2, NONE,     "a ** b",         OF_T(arith_pow)(a, b)) \
    X(PROG_NEG,      neg,      F, _, I, 1, NONE,     "-a",             OF_T(arith_neg)(a)) \
    X(PROG_ABS,      abs,      F, _, I, 1, ONE,      "abs(a)",         OF_T(arith_abs)(a)) \
    X(PROG_SQRT,     sqrt,     F, W, _, 1, FRACTION, "sqrt(a)",        OF_T(sqrt)(a)) \
    X(PROG_EXP,      exp,      F, _, _, 1, FRACTION, "exp(a)",         OF_T(arith_exp)(a)) \
    X(PROG_LOG,      log,      F, _, _, 1, FRACTION, "log(a)",         OF_T(arith_log)(a)) \
    X(PROG_TANH,     tanh,     F, _, _, 1, FRACTION, "tanh(a)",        OF_T(curve_tanh)(a)) \
    X(PROG_SIN,      sin,      V, _, _, 1, FRACTION, "sin(a)",         OF_T(curve_any_sin)(a)) \
    X(PROG_COS,      cos,      V, _, _, 1, FRACTION, "cos(a)",         OF_T(curve_any_cos)(a)) \
    X(PROG_ASIN,     asin,     F, _, _, 1, FRACTION, "asin(a)",        OF_T(curve_asin)(a)) \
    X(PROG_ACOS,     acos,     F, _, _, 1, FRACTION, "acos(a)",        OF_T(curve_acos)(a)) \
    X(PROG_SIGN,     sign,     F, _, I, 1, ONE,      "sign(a)",        (a > 0) - (a < 0)) \
    X(PROG_FLOOR,    floor,    F, _, _, 1, WHOLE,    "floor(a)",       OF_T(floor)(a)) \
    X(PROG_CEIL,     ceil,     F, _, _, 1, WHOLE,    "ceil(a)",        OF_T(ceil)(a)) \
    X(PROG_ROUND,    round,    F, _, _, 1, WHOLE,    "round(a)",       OF_T(rint)(a)) \
    X(PROG_MIN,      min,      F, _, I, 2, NONE,     "min(a, b)", \
      ((a < b) | (a != a)) ? a : b) \
    X(PROG_MAX,      max,      F, _, I, 2, NONE,     "max(a, b)", \
      ((a > b) | (a != a)) ? a : b) \
    X(PROG_EQ,       eq,       F, _, I, 2, NONE,     "a == b",         a == b) \
    X(PROG_NE,       ne,       F, _, I, 2, NONE,     "a != b",         a != b) \
    X(PROG_LT,       lt,       F, _, I, 2, NONE,     "a < b",          a < b) \
    X(PROG_LE,       le,       F, _, I, 2, NONE,     "a <= b",         a <= b) \
    X(PROG_GT,       gt,       F, _, I, 2, NONE,     "a > b",          a > b) \
    X(PROG_GE,       ge,       F, _, I, 2, NONE,     "a >= b",         a >= b) \
    X(PROG_AND,      and,      F, _, I, 2, NONE,     "a and b",        (a != 0) & (b != 0)) \
    X(PROG_OR,       or,       F, _, I, 2, NONE,     "a or b",         (a != 0) | (b != 0)) \
    X(PROG_NOT,      not,      F, _, I, 1, NONE,     "not a",          a == 0) \
    X(PROG_ISFINITE, isfinite, F, _, _, 1, TEST,     "isfinite(a)",    a - a == 0) \
    X(PROG_ISNAN,    isnan,    F, _, _, 1, TEST,     "isnan(a)",       a != a) \
    X(PROG_WHERE,    where,    F, _, I, 3, NONE,     "where(a, b, c)", a != 0 ? b : c) \
    X(PROG_CLIP,     clip,     F, _, I, 3, NONE,     "clip(a, b, c)",  a > c ? c : a < b ? b : a)

/* Fused loops: prog_select.c chooses them for several operations, or for one with constants. */
#define KERNEL_MAP(X) \
    X(KERNEL_LIN1,       lin1,       F, W, _, 1, NONE, "a*k0 + k1", a*k0 + k1) \
    X(KERNEL_LIN2,       lin2,       F, W, _, 2, NONE, "a*k0 + b*k1", a*k0 + b*k1) \
    X(KERNEL_LIN3,       lin3,       F, W, _, 3, NONE, "(a*k0 + b*k1) + c*k2", \
      (a*k0 + b*k1) + c*k2) \
    X(KERNEL_MULADD,     muladd,     F, W, _, 3, NONE, "a*k0 + (b*k1)*c", a*k0 + (b*k1)*c) \
    X(KERNEL_DIVADD,     divadd,     F, W, _, 3, NONE, "a*k0 + (b*k1)/c", a*k0 + (b*k1)/c) \
    X(KERNEL_SCALEMUL,   scalemul,   F, W, _, 2, NONE, "(a*k0)*b", (a*k0)*b) \
    X(KERNEL_SCALEDIV,   scalediv,   F, W, _, 2, NONE, "(a*k0)/b", (a*k0)/b) \
    X(KERNEL_DIVK,       divk,       F, W, _, 1, NONE, "a/k0", a/k0) \
    X(KERNEL_KDIV,       kdiv,       F, W, _, 1, NONE, "k0/a", k0/a) \
    X(KERNEL_ROOT,       root,       F, W, _, 1, NONE, "sqrt(a + k0) + k1", \
      OF_T(sqrt)(a + k0) + k1) \
    X(KERNEL_ROOTDIV,    rootdiv,    F, W, _, 2, NONE, "(a*k0)/(sqrt(b + k1) + k2)", \
      (a*k0)/(OF_T(sqrt)(b + k1) + k2)) \
    X(KERNEL_ROOTDIVADD, rootdivadd, F, W, _, 3, NONE, "a*k0 + (b*k1)/(sqrt(c + k2) + k3)", \
      a*k0 + (b*k1)/(OF_T(sqrt)(c + k2) + k3)) \
    X(KERNEL_ADDK,       addk,       _, _, I, 1, NONE, "a + k0", OF_T(arith_add)(a, k0)) \
    X(KERNEL_KSUB,       ksub,       _, _, I, 1, NONE, "k0 - a", OF_T(arith_sub)(k0, a)) \
    X(KERNEL_MULK,       mulk,       _, _, I, 1, NONE, "a*k0", OF_T(arith_mul)(a, k0)) \
    X(KERNEL_CLIPK,      clipk,      F, _, _, 1, NONE, "clip(a*k2, k0, k1)", \
      a*k2 > k1 ? k1 : a*k2 < k0 ? k0 : a*k2) \
    X(KERNEL_CLIPKI,     clipki,     _, _, I, 1, NONE, "clip(a, k0, k1)", \
      a > k1 ? k1 : a < k0 ? k0 : a) \
    X(KERNEL_MINK,       mink,       F, _, I, 1, NONE, "min(a, k0)", \
      ((a < k0) | (a != a)) ? a : k0) \
    X(KERNEL_MAXK,       maxk,       F, _, I, 1, NONE, "max(a, k0)", \
      ((a > k0) | (a != a)) ? a : k0) \
    X(KERNEL_EQK,        eqk,        F, _, I, 1, NONE, "a == k0", a == k0) \
    X(KERNEL_NEK,        nek,        F, _, I, 1, NONE, "a != k0", a != k0) \
    X(KERNEL_LTK,        ltk,        F, _, I, 1, NONE, "a < k0", a < k0) \
    X(KERNEL_LEK,        lek,        F, _, I, 1, NONE, "a <= k0", a <= k0) \
    X(KERNEL_GTK,        gtk,        F, _, I, 1, NONE, "a > k0", a > k0) \
    X(KERNEL_GEK,        gek,        F, _, I, 1, NONE, "a >= k0", a >= k0) \
    X(KERNEL_WHERE_VK,   where_vk,   F, _, I, 2, NONE, "where(a, b, k0)", a != 0 ? b : k0) \
    X(KERNEL_WHERE_KV,   where_kv,   F, _, I, 2, NONE, "where(a, k0, b)", a != 0 ? k0 : b) \
    X(KERNEL_WHERE_KK,   where_kk,   F, _, I, 1, NONE, "where(a, k0, k1)", a != 0 ? k0 : k1) \
    X(KERNEL_COPY,       copy,       F, _, I, 1, NONE, "a", a) \
    X(KERNEL_FILL,       fill,       F, _, I, 0, NONE, "k0", k0)
/* clang-format on */
