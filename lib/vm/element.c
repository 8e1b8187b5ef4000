/* The functions and operators that host numbers, expressions and rules share. */
#include "vm/element.h"

#include <math.h>
#include <string.h>

#include "cpu/cpu.h"

/* ---- Functions ------------------------------------------------------------------------------- */

/* The functions of one element are those of op_list.h. */
#define ROW_ONE(name, op)      {#name, FN_ONE, op, 1, 1, 'n', 0},
#define ROW_WHOLE(name, op)    {#name, FN_WHOLE, op, 1, 1, 'n', 0},
#define ROW_FRACTION(name, op) {#name, FN_FRACTION, op, 1, 1, 'n', 0},
#define ROW_TEST(name, op)     {#name, FN_TEST, op, 1, 1, 'n', 0},
#define ROW_NONE(name, op)
#define ROW_OF(op, loop, f, i, arrays, kind, ...) ROW_##kind(loop, op)

/* Legend of the others: name; kind; operation; fewest and most arguments; what each must be as a
 * host number: n a number, m a number or none (the first must be a number), t a text, a anything;
 * traits. A new one needs a line in cli/function_table.c too, and one in cli/rules.md. */
/* clang-format off */
const element_function element_functions[] = {
    PROG_OPS(ROW_OF)
    {"min",      FN_TWO,      PROG_MIN,      2, 64, 'n', 0},
    {"min",      FN_MIN,      PROG_NOPS,     1, 1,  'n', FN_REDUCES | FN_STEPS},
    {"max",      FN_TWO,      PROG_MAX,      2, 64, 'n', 0},
    {"max",      FN_MAX,      PROG_NOPS,     1, 1,  'n', FN_REDUCES | FN_STEPS},
    {"minimum",  FN_TWO,      PROG_MIN,      2, 2,  'n', 0},
    {"maximum",  FN_TWO,      PROG_MAX,      2, 2,  'n', 0},
    {"clip",     FN_CLIP,     PROG_CLIP,     2, 3,  'm', 0},
    {"where",    FN_WHERE,    PROG_WHERE,    3, 3,  'a', 0},
    {"endswith", FN_ENDSWITH, PROG_NOPS,     2, 64, 't', 0},
    {"f64",      FN_F64,      PROG_NOPS,     1, 1,  'n', 0},
    {"sum",      FN_SUM,      PROG_NOPS,     1, 1,  'n', FN_REDUCES},
    {"norm",     FN_NORM,     PROG_NOPS,     1, 1,  'n', FN_REDUCES},
    {"mean",     FN_MEAN,     PROG_NOPS,     1, 1,  'n', FN_REDUCES},
    {"rowsum",   FN_SUM,      PROG_NOPS,     1, 1,  'n', FN_REDUCES | FN_BY_ROW},
    {"rowmean",  FN_MEAN,     PROG_NOPS,     1, 1,  'n', FN_REDUCES | FN_BY_ROW},
    {"rowmax",   FN_MAX,      PROG_NOPS,     1, 1,  'n', FN_REDUCES | FN_BY_ROW | FN_STEPS},
    {"rowmin",   FN_MIN,      PROG_NOPS,     1, 1,  'n', FN_REDUCES | FN_BY_ROW | FN_STEPS},
    {"colsum",   FN_SUM,      PROG_NOPS,     1, 1,  'n', FN_REDUCES | FN_BY_COLUMN | FN_STEPS},
    {"colmean",  FN_MEAN,     PROG_NOPS,     1, 1,  'n', FN_REDUCES | FN_BY_COLUMN | FN_STEPS},
    {"colmax",   FN_MAX,      PROG_NOPS,     1, 1,  'n', FN_REDUCES | FN_BY_COLUMN | FN_STEPS},
    {"colmin",   FN_MIN,      PROG_NOPS,     1, 1,  'n', FN_REDUCES | FN_BY_COLUMN | FN_STEPS},
    {"matmul",   FN_MATMUL,   PROG_NOPS,     2, 2,  'n', FN_MATRIX | FN_STEPS},
    {"T",        FN_TURNED,   PROG_NOPS,     1, 1,  'n', FN_MATRIX | FN_STEPS},
    {"normal",   FN_NORMAL,   PROG_NOPS,     1, 1,  'n', FN_DRAWS},
    {"largest",  FN_LARGEST,  PROG_NOPS,     2, 2,  'n', FN_MERGES},
    {"quantile", FN_QUANTILE, PROG_NOPS,     2, 2,  'n', FN_MERGES | FN_REDUCES},
    {"uniform",  FN_UNIFORM,  PROG_NOPS,     2, 2,  'n', FN_MERGES | FN_DRAWS},
    {"rowrank",  FN_ROWRANK,  PROG_NOPS,     1, 1,  'n', FN_MERGES},
    {"cosine",   FN_COSINE,   PROG_NOPS,     2, 2,  'n', FN_MERGES | FN_REDUCES},
    {"sparse",   FN_SPARSE,   PROG_NOPS,     1, 1,  'n', FN_ASKS},
    {"size",     FN_SIZE,     PROG_NOPS,     1, 1,  'n', FN_ASKS | FN_MEASURES},
    {"len",      FN_LEN,      PROG_NOPS,     1, 1,  'n', FN_ASKS | FN_MEASURES},
};
/* clang-format on */

const int element_function_count = (int)(sizeof element_functions / sizeof *element_functions);

/* A rule is gone through again for every push: most names differ in the first letter, which needs
 * no call. */
const element_function *element_find(const char *name)
{
    const element_function *f = element_functions, *end = f + element_function_count;
    while (f < end && (f->name[0] != name[0] || strcmp(f->name, name) != 0))
        f++;
    return f < end ? f : NULL;
}

const element_function *element_called(const ast *node)
{
    const element_function *f = node->kind == AST_CALL ? element_find(node->u.text) : NULL;
    const element_function *end = element_functions + element_function_count;
    /* of two functions of one name the second takes fewer arguments */
    bool fewer = f && (int)node->n < f->min && f + 1 < end && strcmp(f[0].name, f[1].name) == 0;
    return fewer ? f + 1 : f;
}

int element_check_count(const element_function *f, int n, kv_err *e)
{
    if (n >= f->min && n <= f->max)
        return KV_OK;
    if (f->min == f->max)
        return kv_err_set(e, KV_E_USAGE, "%s takes %d argument%s, not %d", f->name, f->min,
                          f->min == 1 ? "" : "s", n);
    return kv_err_set(e, KV_E_USAGE, "%s takes %d to %d arguments, not %d", f->name, f->min, f->max,
                      n);
}

bool element_is_of_rules(const element_function *f)
{
    return f->kind >= FN_F64;
}

/* ---- Operators and numbers ------------------------------------------------------------------- */

prog_op element_op(ast_op op)
{
    static const prog_op operations[] = {
        [OP_ADD] = PROG_ADD,
        [OP_SUB] = PROG_SUB,
        [OP_MUL] = PROG_MUL,
        [OP_DIV] = PROG_DIV,
        [OP_FLOORDIV] = PROG_FLOORDIV,
        [OP_MOD] = PROG_MOD,
        [OP_POW] = PROG_POW,
        [OP_EQ] = PROG_EQ,
        [OP_NE] = PROG_NE,
        [OP_LT] = PROG_LT,
        [OP_LE] = PROG_LE,
        [OP_GT] = PROG_GT,
        [OP_GE] = PROG_GE,
        [OP_AND] = PROG_AND,
        [OP_OR] = PROG_OR,
    };
    return operations[op];
}

bool element_holds(kv_dtype dtype, int64_t x)
{
    char narrow[8];
    int64_t back = x;
    if (!kv_dtype_is_float(dtype)) {
        convert_elements(narrow, dtype, &x, KV_INT64, 1);
        convert_elements(&back, KV_INT64, narrow, dtype, 1);
    }
    return back == x;
}

bool element_is_whole(double x, int64_t *out)
{
    if (x != floor(x) || fabs(x) >= 0x1p63)
        return false;
    *out = (int64_t)x;
    return true;
}
