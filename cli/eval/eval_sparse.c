/* Operators over row_sparse arrays: over the rows that are held, where all others stay zero, else
 * over the dense array. */
#include "eval/eval_sparse.h"

#include <math.h>
#include <string.h>

#include "array/arrange.h"
#include "array/sparse.h"
#include "eval/eval_tree.h"
#include "session/unit.h"

/* Operands of one operator. */
#define OPERANDS 8

bool value_is_sparse(value v)
{
    return v.kind == VALUE_ARRAY && kv_array_storage(v.u.box->array) == KV_ROW_SPARSE;
}

/* A row_sparse array that has data for the rows of `like`. */
static int with_rows(value *out, kv_array *like, kv_array *data, kv_err *e)
{
    const void *from;
    void *to;
    kv_array *a;
    int code = kv_array_new_sparse(&a, kv_array_dtype(data), kv_array_ndim(like),
                                   kv_array_shape(like), kv_array_nrows(like),
                                   kv_array_row_ids(like), kv_array_ctx(like), e);
    if (code)
        return code;
    if ((code = kv_array_read(data, &from, e)) || (code = kv_array_write_rows(a, &to, e))) {
        kv_array_unref(a);
        return code;
    }
    if (kv_array_bytes(data) > 0)
        memcpy(to, from, (size_t)kv_array_bytes(data));
    return value_array(out, a, e);
}

/* The operator over the rows of operand i, the only one that is not a number. */
static int over_rows(session *s, const ast *node, const value *args, int i, value *out, kv_err *e)
{
    value operands[OPERANDS], made;
    kv_array *ids, *data, *r = args[i].u.box->array;
    int code = sparse_parts(&ids, &data, r, e);
    if (code)
        return code;
    kv_array_unref(ids);
    memcpy(operands, args, node->n * sizeof *args);
    if ((code = value_array(&operands[i], data, e)) == KV_OK) {
        code = eval_operate(s, node, operands, &made, e);
        value_release(&operands[i]);
    }
    if (code == KV_OK) {
        code = with_rows(out, r, made.u.box->array, e);
        value_release(&made);
    }
    return code;
}

/* Gives a, which is taken, on a context. */
static int on_context(value *out, kv_array *a, kv_ctx ctx, kv_err *e)
{
    kv_array *there;
    if (kv_ctx_same(kv_array_ctx(a), ctx))
        return value_array(out, a, e);
    int code = kv_array_dup(&there, a, kv_array_dtype(a), ctx, e);
    kv_array_unref(a);
    return code ? code : value_array(out, there, e);
}

/* a + b, or a - b, which is a + b * -1. */
static int over_both(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    kv_array *both[2] = {args[0].u.box->array, args[1].u.box->array}, *sum;
    kv_dtype dtype = promote_dtypes(kv_array_dtype(both[0]), kv_array_dtype(both[1]));
    ast times = *node;
    value factors[2] = {args[1], value_int(-1)}, negative = value_none();
    int code = KV_OK;
    times.op = OP_MUL;
    if (node->op == OP_SUB && (code = over_rows(s, &times, factors, 0, &negative, e)) == KV_OK)
        both[1] = negative.u.box->array;
    kv_array_nrows(both[0]); /* waits for what a store still writes */
    kv_array_nrows(both[1]);
    if (code == KV_OK)
        code = sparse_sum(&sum, both, 2, dtype, (kv_ctx){KV_CPU, 0}, e);
    value_release(&negative);
    return code ? code : on_context(out, sum, kv_array_ctx(args[0].u.box->array), e);
}

/* Over the dense arrays of all operands. */
static int over_all(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    value operands[OPERANDS] = {{0}};
    int code = KV_OK;
    for (uint32_t i = 0; i < node->n && code == KV_OK; i++) {
        kv_array *dense;
        operands[i] = value_none();
        if (!value_is_sparse(args[i]))
            operands[i] = value_ref(args[i]);
        else if ((code = kv_array_to_dense(&dense, args[i].u.box->array, e)) == KV_OK)
            code = value_array(&operands[i], dense, e);
    }
    if (code == KV_OK)
        code = eval_operate(s, node, operands, out, e);
    for (uint32_t i = 0; i < node->n; i++)
        value_release(&operands[i]);
    return code;
}

/* Times or by a number that leaves zeros what they are. */
static bool scales(ast_op op, value number)
{
    return value_is_number(number) && isfinite(value_number(number)) &&
           (op == OP_MUL || (op == OP_DIV && value_number(number) != 0));
}

/* Functions that make 0 of 0. */
static bool keeps_zero(const char *name)
{
    static const char *const names[] = {"abs",  "sign", "sqrt", "floor", "ceil",
                                        "round", "sin",  "asin", "tanh"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

int sparse_operate(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    bool left = value_is_sparse(args[0]), right = node->n == 2 && value_is_sparse(args[1]);
    int code;
    if (node->n > OPERANDS)
        return unit_err(s, node, e, KV_E_USAGE, "%s takes fewer arguments", node->u.text);
    bool binary = node->kind == AST_BINARY;
    bool sum = binary && (node->op == OP_ADD || node->op == OP_SUB) && left && right;
    if (sum && kv_array_same_shape(args[0].u.box->array, args[1].u.box->array))
        code = over_both(s, node, args, out, e);
    else if (node->kind == AST_UNARY || (node->kind == AST_CALL && node->n == 1 && left &&
                                         keeps_zero(node->u.text)))
        code = over_rows(s, node, args, 0, out, e);
    else if (binary && left && scales(node->op, args[1]))
        code = over_rows(s, node, args, 0, out, e);
    else if (binary && right && node->op == OP_MUL && scales(OP_MUL, args[0]))
        code = over_rows(s, node, args, 1, out, e);
    else
        code = over_all(s, node, args, out, e);
    return code ? unit_at(s, node, e) : KV_OK;
}
