/* Trees of one operation, which vm/expr.h computes. */
#include "eval/eval_op.h"

#include "base/mem.h"
#include "vm/expr.h"

/* name: of a function. */
static int apply(kv_array **out, ast_kind kind, ast_op op, const char *name,
                 const expr_leaf *leaves, uint32_t n, kv_err *e)
{
    static const source nowhere = {.text = ""};
    arena nodes = {0};
    ast *tree = arena_alloc(&nodes, sizeof *tree + n * sizeof tree->kid[0], e);
    ast *leaf = arena_alloc(&nodes, sizeof *leaf, e);
    int rc = tree && leaf ? KV_OK : KV_E_MEMORY;
    if (!rc) {
        leaf->kind = AST_NONE;
        tree->kind = (uint8_t)kind;
        tree->op = (uint8_t)op;
        tree->u.text = name;
        tree->n = n;
        for (uint32_t i = 0; i < n; i++)
            tree->kid[i] = leaf;
        rc = expr_eval(out, tree, leaves, (int)n, &nowhere, e);
    }
    arena_release(&nodes);
    return rc;
}

int eval_op_binary(kv_array **out, ast_op op, kv_array *a, kv_array *b, kv_err *e)
{
    const expr_leaf leaves[] = {{.array = a}, {.array = b}};
    return apply(out, AST_BINARY, op, NULL, leaves, 2, e);
}

int eval_op_number(kv_array **out, ast_op op, kv_array *a, host number, kv_err *e)
{
    const expr_leaf leaves[] = {{.array = a}, {.number = number}};
    return apply(out, AST_BINARY, op, NULL, leaves, 2, e);
}

int eval_op_call(kv_array **out, const char *function, kv_array *a, const int64_t *bounds,
                 kv_err *e)
{
    expr_leaf leaves[3] = {{.array = a}};
    for (int i = 0; i < 2 && bounds; i++)
        leaves[i + 1].number = host_int(bounds[i]);
    return apply(out, AST_CALL, OP_NEG, function, leaves, bounds ? 3 : 1, e);
}
