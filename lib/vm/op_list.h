/* The operations of programs, and the kernels that fuse several of them or take constants: a line
 * each, from which the enums, the tables of loops and both texts are made.
 *
 * Legend: name; its loops in kernel_loops.h; for which types there is one (F float32 and float64, W
 * float32 computed in binary64, I int64, _ none); how many arrays it reads, a b c; its
 * text for people, and as C++ for GPUs, where k0 to k3 are constants and kv_add and so on stand in
 * cuda/rule_element.cuh.
 *
 * Comparisons, logic, isfinite and isnan stand together, since prog_build.c asks for them by range.
 */
#ifndef VM_OP_LIST_H
#define VM_OP_LIST_H

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
    X(PROG_ADD,      add,      F, W, I, 2, "a + b",          "kv_add(a, b)") \
    X(PROG_SUB,      sub,      F, W, I, 2, "a - b",          "kv_sub(a, b)") \
    X(PROG_MUL,      mul,      F, W, I, 2, "a * b",          "kv_mul(a, b)") \
    X(PROG_DIV,      div,      F, W, _, 2, "a / b",          "a / b") \
    X(PROG_FLOORDIV, floordiv, F, _, I, 2, "a // b",         "kv_floordiv(a, b)") \
    X(PROG_MOD,      mod,      F, _, I, 2, "a % b",          "kv_mod(a, b)") \
    X(PROG_POW,      pow,      F, _, I, 2, "a ** b",         "kv_pow(a, b)") \
    X(PROG_NEG,      neg,      F, _, I, 1, "-a",             "kv_neg(a)") \
    X(PROG_ABS,      abs,      F, _, I, 1, "abs(a)",         "kv_abs(a)") \
    X(PROG_SQRT,     sqrt,     F, W, _, 1, "sqrt(a)",        "kv_sqrt(a)") \
    X(PROG_EXP,      exp,      F, _, _, 1, "exp(a)",         "kv_exp(a)") \
    X(PROG_LOG,      log,      F, _, _, 1, "log(a)",         "kv_log(a)") \
    X(PROG_TANH,     tanh,     F, _, _, 1, "tanh(a)",        "kv_tanh(a)") \
    X(PROG_SIN,      sin,      F, _, _, 1, "sin(a)",         "kv_sin(a)") \
    X(PROG_COS,      cos,      F, _, _, 1, "cos(a)",         "kv_cos(a)") \
    X(PROG_ASIN,     asin,     F, _, _, 1, "asin(a)",        "kv_asin(a)") \
    X(PROG_ACOS,     acos,     F, _, _, 1, "acos(a)",        "kv_acos(a)") \
    X(PROG_SIGN,     sign,     F, _, I, 1, "sign(a)",        "kv_sign(a)") \
    X(PROG_FLOOR,    floor,    F, _, _, 1, "floor(a)",       "kv_floor(a)") \
    X(PROG_CEIL,     ceil,     F, _, _, 1, "ceil(a)",        "kv_ceil(a)") \
    X(PROG_ROUND,    round,    F, _, _, 1, "round(a)",       "kv_round(a)") \
    X(PROG_MIN,      min,      F, _, I, 2, "min(a, b)",      "kv_min(a, b)") \
    X(PROG_MAX,      max,      F, _, I, 2, "max(a, b)",      "kv_max(a, b)") \
    X(PROG_EQ,       eq,       F, _, I, 2, "a == b",         "a == b") \
    X(PROG_NE,       ne,       F, _, I, 2, "a != b",         "a != b") \
    X(PROG_LT,       lt,       F, _, I, 2, "a < b",          "a < b") \
    X(PROG_LE,       le,       F, _, I, 2, "a <= b",         "a <= b") \
    X(PROG_GT,       gt,       F, _, I, 2, "a > b",          "a > b") \
    X(PROG_GE,       ge,       F, _, I, 2, "a >= b",         "a >= b") \
    X(PROG_AND,      and,      F, _, I, 2, "a and b",        "(a != 0) & (b != 0)") \
    X(PROG_OR,       or,       F, _, I, 2, "a or b",         "(a != 0) | (b != 0)") \
    X(PROG_NOT,      not,      F, _, I, 1, "not a",          "a == 0") \
    X(PROG_ISFINITE, isfinite, F, _, _, 1, "isfinite(a)",    "a - a == 0") \
    X(PROG_ISNAN,    isnan,    F, _, _, 1, "isnan(a)",       "a != a") \
    X(PROG_WHERE,    where,    F, _, I, 3, "where(a, b, c)", "a != 0 ? b : c") \
    X(PROG_CLIP,     clip,     F, _, I, 3, "clip(a, b, c)",  "kv_clip(a, b, c)")

/* Fused loops: prog_match.c chooses them for several operations, or for one with constants. */
#define KERNEL_MAP(X) \
    X(KERNEL_LIN1,       lin1,       F, W, _, 1, "a*k0 + k1", "a*k0 + k1") \
    X(KERNEL_LIN2,       lin2,       F, W, _, 2, "a*k0 + b*k1", "a*k0 + b*k1") \
    X(KERNEL_LIN3,       lin3,       F, W, _, 3, "(a*k0 + b*k1) + c*k2", "(a*k0 + b*k1) + c*k2") \
    X(KERNEL_MULADD,     muladd,     F, W, _, 3, "a*k0 + (b*k1)*c", "a*k0 + (b*k1)*c") \
    X(KERNEL_DIVADD,     divadd,     F, W, _, 3, "a*k0 + (b*k1)/c", "a*k0 + (b*k1)/c") \
    X(KERNEL_SCALEMUL,   scalemul,   F, W, _, 2, "(a*k0)*b", "(a*k0)*b") \
    X(KERNEL_SCALEDIV,   scalediv,   F, W, _, 2, "(a*k0)/b", "(a*k0)/b") \
    X(KERNEL_DIVK,       divk,       F, W, _, 1, "a/k0", "a/k0") \
    X(KERNEL_KDIV,       kdiv,       F, W, _, 1, "k0/a", "k0/a") \
    X(KERNEL_ROOT,       root,       F, W, _, 1, "sqrt(a + k0) + k1", "kv_sqrt(a + k0) + k1") \
    X(KERNEL_ROOTDIV,    rootdiv,    F, W, _, 2, "(a*k0)/(sqrt(b + k1) + k2)", \
      "(a*k0)/(kv_sqrt(b + k1) + k2)") \
    X(KERNEL_ROOTDIVADD, rootdivadd, F, W, _, 3, "a*k0 + (b*k1)/(sqrt(c + k2) + k3)", \
      "a*k0 + (b*k1)/(kv_sqrt(c + k2) + k3)") \
    X(KERNEL_ADDK,       addk,       _, _, I, 1, "a + k0", "kv_add(a, k0)") \
    X(KERNEL_KSUB,       ksub,       _, _, I, 1, "k0 - a", "kv_sub(k0, a)") \
    X(KERNEL_MULK,       mulk,       _, _, I, 1, "a*k0", "kv_mul(a, k0)") \
    X(KERNEL_CLIPK,      clipk,      F, _, _, 1, "clip(a*k2, k0, k1)", "kv_clip(a*k2, k0, k1)") \
    X(KERNEL_CLIPKI,     clipki,     _, _, I, 1, "clip(a, k0, k1)", "kv_clip(a, k0, k1)") \
    X(KERNEL_MINK,       mink,       F, _, I, 1, "min(a, k0)", "kv_min(a, k0)") \
    X(KERNEL_MAXK,       maxk,       F, _, I, 1, "max(a, k0)", "kv_max(a, k0)") \
    X(KERNEL_EQK,        eqk,        F, _, I, 1, "a == k0", "a == k0") \
    X(KERNEL_NEK,        nek,        F, _, I, 1, "a != k0", "a != k0") \
    X(KERNEL_LTK,        ltk,        F, _, I, 1, "a < k0", "a < k0") \
    X(KERNEL_LEK,        lek,        F, _, I, 1, "a <= k0", "a <= k0") \
    X(KERNEL_GTK,        gtk,        F, _, I, 1, "a > k0", "a > k0") \
    X(KERNEL_GEK,        gek,        F, _, I, 1, "a >= k0", "a >= k0") \
    X(KERNEL_WHERE_VK,   where_vk,   F, _, I, 2, "where(a, b, k0)", "a != 0 ? b : k0") \
    X(KERNEL_WHERE_KV,   where_kv,   F, _, I, 2, "where(a, k0, b)", "a != 0 ? k0 : b") \
    X(KERNEL_WHERE_KK,   where_kk,   F, _, I, 1, "where(a, k0, k1)", "a != 0 ? k0 : k1") \
    X(KERNEL_COPY,       copy,       F, _, I, 1, "a", "a") \
    X(KERNEL_FILL,       fill,       F, _, I, 0, "k0", "k0")
/* clang-format on */

#endif
