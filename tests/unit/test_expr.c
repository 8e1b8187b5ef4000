/* Tests of element-wise expressions over arrays: dtypes, shapes, numbers, errors with places. */
#include "vm/expr.h"

#include <math.h>

#include "cpu/cpu.h"
#include "lang/parse.h"
#define SHARED_KV_ERR
#include "test.h"

static arena memory;
/* It is filled by helpers, too. */
#undef WITH_KV_ERR
#define WITH_KV_ERR(check) check
static kv_err e;
static source text;

static struct {
    char name;
    kv_array *array;
} arrays[16];
static int narrays;

/* Makes the array NAME of a shape from numbers, each rounded to dtype. */
static void let(char name, kv_dtype dtype, int ndim, const int64_t *shape, const double *x)
{
    kv_array *a = MADE(kv_array, kv_array_new, dtype, ndim, shape, (kv_ctx){0});
    convert_elements(array_data(a), dtype, x, KV_FLOAT64, kv_array_size(a));
    arrays[narrays].name = name;
    arrays[narrays++].array = a;
}

#define VECTOR(name, dtype, ...)                                                                   \
    let(name, dtype, 1, (int64_t[]){sizeof(double[]){__VA_ARGS__} / sizeof(double)},               \
        (double[]){__VA_ARGS__})

static void forget(void)
{
    for (int i = 0; i < narrays; i++)
        kv_array_unref(arrays[i].array);
    narrays = 0;
    arena_release(&memory);
}

static int add_leaves(const ast *node, expr_leaf *leaves, int n)
{
    if (expr_is_operator(node)) {
        for (uint32_t i = 0; i < node->n; i++)
            n = add_leaves(node->kid[i], leaves, n);
        return n;
    }
    leaves[n] = (expr_leaf){.number = host_literal(node)};
    if (node->kind == AST_NAME) {
        int i = 0;
        while (arrays[i].name != node->u.text[0])
            CHECK(++i < narrays);
        leaves[n].array = arrays[i].array;
    }
    return n + 1;
}

static ast *tree_of(const char *expression)
{
    uint32_t n = (uint32_t)strlen(expression);
    text = (source){.name = "x.kv", .text = expression, .len = n, .line = 1, .col = 1};
    return MADE(ast, parse_expr_text, &text, &memory);
}

static int eval(const char *expression, kv_array **out)
{
    expr_leaf leaves[64];
    *out = NULL;
    ast *tree = tree_of(expression);
    int n = add_leaves(tree, leaves, 0);
    return expr_eval(out, tree, leaves, n, &text, &e);
}

/* "float32(2, 2): 1.0 2.0 3.0 4.0" */
static const char *shown(const char *expression)
{
    static buf out;
    own_array *a = NULL;
    char shape[64];
    CHECK_OK(eval(expression, &a));
    buf_clear(&out);
    buf_printf(&out, "%s%s:", kv_dtype_name(kv_array_dtype(a)),
               kv_shape_text(shape, sizeof shape, kv_array_ndim(a), kv_array_shape(a)));
    const char *data = array_elements(a);
    for (int64_t i = 0; i < kv_array_size(a); i++) {
        double x;
        const char *from = data + i * kv_dtype_bytes(kv_array_dtype(a));
        convert_elements(&x, KV_FLOAT64, from, kv_array_dtype(a), 1);
        buf_char(&out, ' ');
        host_print(&out, host_float(x), false);
    }
    return buf_text(&out);
}

/* "1:3-5 dtype: text" */
static const char *refusal(const char *expression)
{
    static buf out;
    kv_array *a;
    int rc = eval(expression, &a);
    CHECK(rc != KV_OK && a == NULL);
    buf_clear(&out);
    buf_printf(&out, "%d:%d-%d %s: %s", e.line, e.col, e.end, kv_code_name(rc), e.text);
    memset(&e, 0, sizeof e);
    return buf_text(&out);
}

TEST(expr_dtypes)
{
    VECTOR('f', KV_FLOAT32, 1.5);
    VECTOR('d', KV_FLOAT64, 0.1);
    VECTOR('h', KV_FLOAT16, 2048);
    VECTOR('g', KV_BFLOAT16, 256);
    VECTOR('i', KV_INT32, 7);
    VECTOR('b', KV_INT8, 100);
    VECTOR('u', KV_UINT8, 200);
    VECTOR('l', KV_INT64, 3);
    VECTOR('t', KV_BOOL, 1);
    CHECK_TEXT(shown("f + d"), "float64(1,): 1.6");
    CHECK_TEXT(shown("h + g"), "float32(1,): 2304.0");
    CHECK_TEXT(shown("h + f"), "float32(1,): 2049.5");
    CHECK_TEXT(shown("i + h"), "float16(1,): 2056.0");
    CHECK_TEXT(shown("l * f"), "float32(1,): 4.5");
    CHECK_TEXT(shown("b + u"), "int32(1,): 300.0");
    CHECK_TEXT(shown("u + i"), "int32(1,): 207.0");
    CHECK_TEXT(shown("i + l"), "int64(1,): 10.0");
    CHECK_TEXT(shown("t + i"), "int32(1,): 8.0");
    CHECK_TEXT(shown("t + t"), "bool(1,): 1.0");
    CHECK_TEXT(shown("t * 2"), "int64(1,): 2.0");
    CHECK_TEXT(shown("t * 0.5"), "float32(1,): 0.5");
    CHECK_TEXT(shown("-t"), "int64(1,): -1.0");
    /* a number never widens */
    CHECK_TEXT(shown("f * 0.1"), "float32(1,): 0.15000000596046448");
    CHECK_TEXT(shown("h * 0.1"), "float16(1,): 204.75");
    CHECK_TEXT(shown("i + 2.0"), "int32(1,): 9.0");
    /* each operation rounds to its dtype: 2048 + 1 is 2048 in float16 */
    CHECK_TEXT(shown("h + 1 + 1"), "float16(1,): 2048.0");
    CHECK_TEXT(shown("g + 1 + 1"), "bfloat16(1,): 256.0");
    CHECK_TEXT(shown("b * 2 + 100"), "int8(1,): 44.0");
    CHECK_TEXT(shown("b * 2 // 3"), "int8(1,): -19.0");
    /* integers divided */
    CHECK_TEXT(shown("i / 2"), "float32(1,): 3.5");
    CHECK_TEXT(shown("i / l"), "float32(1,): 2.3333332538604736");
    CHECK_TEXT(shown("1 / i"), "float32(1,): 0.1428571492433548");
    CHECK_TEXT(shown("i / 0.5"), "float32(1,): 14.0");
    CHECK_TEXT(shown("-i // 2"), "int32(1,): -4.0");
    CHECK_TEXT(shown("-i % 2"), "int32(1,): 1.0");
    CHECK_TEXT(shown("i // 0"), "int32(1,): 0.0");
    CHECK_TEXT(shown("sqrt(i)"), "float32(1,): 2.6457512378692627");
    CHECK_TEXT(shown("sqrt(d)"), "float64(1,): 0.31622776601683794");
    CHECK_TEXT(shown("i ** 2"), "int32(1,): 49.0");
    CHECK_TEXT(shown("i ** -i"), "int32(1,): 0.0");
    CHECK_TEXT(shown("(i // i) ** -i"), "int32(1,): 1.0");
    CHECK_TEXT(shown("(-i // i) ** -i"), "int32(1,): -1.0");
    CHECK_TEXT(shown("(-i // i) ** (-i - 1)"), "int32(1,): 1.0");
    CHECK_TEXT(shown("floor(i) + abs(-i)"), "int32(1,): 14.0");
    CHECK_TEXT(shown("where(d, i, 2)"), "int32(1,): 7.0");
    CHECK_TEXT(shown("where(d * 1e-300 * 1e-10, f, 2)"), "float32(1,): 1.5");
    CHECK_TEXT(shown("where(t, true, false)"), "bool(1,): 1.0");
    CHECK_TEXT(shown("max(i, l)"), "int64(1,): 7.0");
    forget();
}

TEST(expr_integers_are_exact)
{
    kv_array *a = NULL;
    int64_t big[] = {INT64_MAX, INT64_MIN, (INT64_C(1) << 53) + 1};
    CHECK_OK(kv_array_wrap(&a, big, KV_INT64, 1, (int64_t[]){3}, (kv_ctx){0}, NULL, NULL, &e));
    arrays[narrays].name = 'a';
    arrays[narrays++].array = a;
    kv_array *sum;
    CHECK_OK(eval("a + 1", &sum));
    const void *data = array_elements(sum);
    int64_t want[] = {INT64_MIN, INT64_MIN + 1, (INT64_C(1) << 53) + 2};
    CHECK(memcmp(data, want, sizeof want) == 0);
    kv_array_unref(sum);
    CHECK_TEXT(shown("a == 9007199254740993"), "bool(3,): 0.0 0.0 1.0");
    CHECK_TEXT(shown("a > 9007199254740992.0"), "bool(3,): 1.0 0.0 1.0");
    forget();
}

TEST(expr_shapes)
{
    let('a', KV_FLOAT32, 2, (int64_t[]){2, 3}, (double[]){1, 2, 3, 4, 5, 6});
    let('r', KV_FLOAT32, 1, (int64_t[]){3}, (double[]){10, 20, 30});
    let('c', KV_FLOAT32, 2, (int64_t[]){2, 1}, (double[]){100, 200});
    let('s', KV_FLOAT32, 0, NULL, (double[]){0.5});
    let('z', KV_FLOAT32, 2, (int64_t[]){0, 3}, (double[]){0});
    let('t', KV_FLOAT32, 2, (int64_t[]){3, 2}, (double[]){1, 2, 3, 4, 5, 6});
    CHECK_TEXT(shown("a + r"), "float32(2, 3): 11.0 22.0 33.0 14.0 25.0 36.0");
    CHECK_TEXT(shown("a + c"), "float32(2, 3): 101.0 102.0 103.0 204.0 205.0 206.0");
    CHECK_TEXT(shown("r + c"), "float32(2, 3): 110.0 120.0 130.0 210.0 220.0 230.0");
    CHECK_TEXT(shown("r * s + c * s + a"), "float32(2, 3): 56.0 62.0 68.0 109.0 115.0 121.0");
    CHECK_TEXT(shown("s * 2"), "float32(): 1.0");
    CHECK_TEXT(shown("z + r"), "float32(0, 3):");
    CHECK_TEXT(shown("where(a > 3, r, c)"), "float32(2, 3): 100.0 100.0 100.0 10.0 20.0 30.0");
    CHECK_TEXT(shown("clip(a, 2, c)"), "float32(2, 3): 2.0 2.0 3.0 4.0 5.0 6.0");
    CHECK_TEXT(refusal("1 + a * t"), "1:5-10 shape: shapes (2, 3) and (3, 2) do not fit");
    CHECK_TEXT(refusal("a + (r + t)"), "1:5-12 shape: shapes (3,) and (3, 2) do not fit");
    CHECK_TEXT(refusal("where(a, r, t)"), "1:1-15 shape: shapes (2, 3) and (3, 2) do not fit");
    forget();
}

TEST(expr_contexts)
{
    own_array *out = NULL;
    for (; narrays < 2; narrays++) {
        kv_ctx ctx = {KV_CPU, narrays + 1};
        arrays[narrays].name = (char)('a' + narrays);
        arrays[narrays].array = MADE(kv_array, kv_array_new, KV_FLOAT32, 1, (int64_t[]){2}, ctx);
    }
    CHECK_OK(eval("2 * b + a", &out));
    CHECK_INT(kv_array_ctx(out).id, 2);
    forget();
}

TEST(expr_errors)
{
    VECTOR('a', KV_FLOAT32, 1);
    VECTOR('i', KV_INT32, 7);
    VECTOR('b', KV_INT8, 7);
    VECTOR('u', KV_UINT8, 7);
    CHECK_TEXT(refusal("2 * (i + 0.5)"),
               "1:5-14 dtype: 0.5 is not a whole number, and the array is int32");
    CHECK_TEXT(refusal("i * nan"),
               "1:1-8 dtype: nan is not a whole number, and the array is int32");
    CHECK_TEXT(refusal("b + 300"), "1:1-8 value: 300 does not fit into int8");
    CHECK_TEXT(refusal("u * -1"), "1:1-7 value: -1 does not fit into uint8");
    CHECK_TEXT(refusal("i ** -1"), "1:1-8 value: integers have no negative powers");
    CHECK_TEXT(refusal("a + none"), "1:1-9 dtype: none cannot be computed with arrays");
    CHECK_TEXT(refusal("a + \"x\""), "1:1-8 dtype: a text cannot be computed with arrays");
    CHECK_TEXT(refusal("a + 1 // 0"), "1:5-11 value: a number is divided by 0");
    CHECK_TEXT(refusal("sqrt(a, a)"), "1:1-11 usage: sqrt takes 1 argument, not 2");
    CHECK_TEXT(refusal("clip(a)"), "1:1-8 usage: clip takes 2 to 3 arguments, not 1");
    CHECK_TEXT(refusal("1 + 2"), "1:1-6 value: the result depends on no array");
    forget();
}

TEST(expr_operators)
{
    static const struct {
        const char *expression;
        bool is;
    } cases[] = {{"a + b", true},   {"-a", true},        {"not a", true},
                 {"sqrt(a)", true}, {"min(a, b)", true}, {"min(a)", false},
                 {"sum(a)", false}, {"a", false},        {"3", false},
                 {"a[0]", false},   {"[1, 2]", false},   {"clip(a, 1, 2)", true},
                 {"a == b", true},  {"a.sqrt", true},    {"clip(a, lo=1)", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_INT(expr_is_operator(tree_of(cases[i].expression)), cases[i].is);
}

TEST(expr_marked_leaves)
{
    VECTOR('a', KV_FLOAT32, 1, 2);
    ast *tree = tree_of("abs(a) + 1");
    /* abs is somebody's own function here: its value is a leaf */
    expr_leaf leaves[] = {{.array = arrays[0].array, .node = tree->kid[0]},
                          {.number = host_int(1)}};
    own_array *out = MADE(kv_array, expr_eval, tree, leaves, 2, &text);
    forget();
}

TEST(expr_no_memory)
{
    let('a', KV_FLOAT32, 2, (int64_t[]){2, 3}, (double[]){1, 2, 3, 4, 5, 6});
    VECTOR('r', KV_FLOAT32, 1, 2, 3);
    ast *tree = tree_of("a * r + 1 / r");
    expr_leaf leaves[8];
    int nleaves = add_leaves(tree, leaves, 0);
    own_array *out = NULL;
    CHECK(FAILURES(expr_eval(&out, tree, leaves, nleaves, &text, &e)) < 50);
    forget();
}

TEST(expr_long)
{
    static char many[4000] = "a";
    for (int i = 0; i < 200; i++)
        strcat(many, i % 3 ? " + a * 2" : " - a");
    VECTOR('a', KV_FLOAT64, 1, -2);
    ast *tree = tree_of(many);
    static expr_leaf leaves[1000];
    int n = add_leaves(tree, leaves, 0);
    own_array *out = MADE(kv_array, expr_eval, tree, leaves, n, &text);
    const double *data = array_elements(out);
    CHECK(data[0] == 1 - 67 + 133 * 2);
    forget();
}

static uint64_t seed = 7;

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* Appends a random expression over the arrays a, b, … */
static void grow_tree(buf *out, int depth)
{
    static const char *const signs[] = {" + ",  " - ", " * ",  " / ",   " // ", " % ",
                                        " == ", " < ", " >= ", " and ", " or ", " + "};
    static const char *const one[] = {"abs(", "sqrt(",  "sign(", "floor(", "round(", "isfinite(",
                                      "-(",   "isnan(", "tanh(", "sin(",   "cos(",   "acos("};
    uint32_t what = depth > 0 ? draw(12) : draw(3);
    if (what < 2) {
        buf_char(out, (char)('a' + draw((uint32_t)narrays)));
    } else if (what == 2) {
        buf_char(out, (char)('0' + draw(4)));
    } else if (what < 9) {
        buf_char(out, '(');
        grow_tree(out, depth - 1);
        buf_add(out, signs[draw(12)]);
        grow_tree(out, depth - 1);
        buf_char(out, ')');
    } else if (what < 11) {
        buf_add(out, one[draw(12)]);
        grow_tree(out, depth - 1);
        buf_char(out, ')');
    } else {
        buf_add(out, draw(2) ? "where(" : "clip(");
        for (int i = 0; i < 3; i++) {
            grow_tree(out, depth - 1);
            buf_add(out, i < 2 ? ", " : ")");
        }
    }
}

/* Evaluates node with one expr_eval an operation; numbers alone are left to it. */
static int one_by_one(const ast *node, expr_leaf *out)
{
    if (!expr_is_operator(node))
        return add_leaves(node, out, 0), kv_array_ref(out->array), KV_OK;
    expr_leaf kids[3] = {{0}};
    kv_array *result = NULL;
    bool any = false;
    int rc = KV_OK;
    for (uint32_t i = 0; i < node->n && !rc; i++) {
        rc = one_by_one(node->kid[i], &kids[i]);
        kids[i].node = node->kid[i];
        any |= kids[i].array != NULL;
    }
    if (!rc && any) {
        rc = expr_eval(&result, node, kids, (int)node->n, &text, &e);
        *out = (expr_leaf){.array = result};
    } else if (!rc) {
        host args[3] = {kids[0].number, kids[1].number, kids[2].number};
        *out = (expr_leaf){0};
        if (node->kind == AST_CALL)
            rc = host_call(node->u.text, args, (int)node->n, &out->number, &e);
        else if (node->kind == AST_UNARY)
            rc = host_unary((ast_op)node->op, args[0], &out->number, &e);
        else if (node->op == OP_AND || node->op == OP_OR)
            out->number = args[host_truth(args[0]) == (node->op == OP_AND)];
        else
            rc = host_binary((ast_op)node->op, args[0], args[1], &out->number, &memory, &e);
    }
    for (uint32_t i = 0; i < node->n; i++)
        kv_array_unref(kids[i].array);
    return rc;
}

static void check_same(kv_array *got, kv_array *want)
{
    const char *x, *y;
    kv_dtype dtype = kv_array_dtype(want);
    int64_t bytes = kv_dtype_bytes(dtype);
    CHECK_INT(kv_array_dtype(got), dtype);
    CHECK(kv_array_same_shape(got, want));
    CHECK_OK(kv_array_read(got, (const void **)&x, &e));
    CHECK_OK(kv_array_read(want, (const void **)&y, &e));
    for (int64_t i = 0; i < kv_array_size(want); i++, x += bytes, y += bytes) {
        double a, b;
        convert_elements(&a, KV_FLOAT64, x, dtype, 1);
        convert_elements(&b, KV_FLOAT64, y, dtype, 1);
        CHECK(memcmp(x, y, (size_t)bytes) == 0 || (isnan(a) && isnan(b)));
    }
}

static void one_tree(int64_t n)
{
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT32,  KV_FLOAT32, KV_FLOAT64,
                                      KV_FLOAT16, KV_BFLOAT16, KV_INT8,    KV_UINT8,
                                      KV_INT32,   KV_INT64,    KV_BOOL};
    static double x[2000];
    static int tried;
    for (int i = 0; i < 3; i++) {
        for (int64_t j = 0; j < n; j++)
            x[j] = draw(10) == 0 ? (double)draw(3) - 1 : ((double)draw(2001) - 1000) / 8;
        let((char)('a' + i), dtypes[draw(tried % 2 ? 11 : 3)], 1, (int64_t[]){n}, x);
    }
    own_buf expression = {0};
    own_array *whole = NULL;
    expr_leaf leaves[400], parts = {0};
    grow_tree(&expression, 1 + (int)draw(4));
    ast *tree = tree_of(buf_text(&expression));
    int nleaves = add_leaves(tree, leaves, 0);
    int rc = one_by_one(tree, &parts);
    bool any = false;
    for (int i = 0; i < nleaves; i++)
        any |= leaves[i].array != NULL;
    memset(&e, 0, sizeof e);
    if ((parts.array || rc) && any && expr_is_operator(tree)) {
        CHECK_INT(expr_eval(&whole, tree, leaves, nleaves, &text, &e), rc);
        memset(&e, 0, sizeof e);
        if (!rc)
            check_same(whole, parts.array);
    }
    tried++;
    kv_array_unref(parts.array);
    forget();
}

TEST(expr_random)
{
    for (int i = 0; i < 8000; i++)
        one_tree((int64_t)draw(12));
    static const int64_t lengths[] = {0, 1, 255, 256, 257, 511, 512, 513, 3 * 512 + 7};
    for (int i = 0; i < 180; i++)
        one_tree(lengths[i % 9]);
}
