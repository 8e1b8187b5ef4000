/* Trees of operators: see eval.h for everything else. */
#ifndef EVAL_EVAL_TREE_H
#define EVAL_EVAL_TREE_H

#include "lang/ast.h"
#include "session/session.h"

/* Returns true for `and`, `or` and `not`, which may skip an operand. */
bool eval_is_logic(const ast *node);

/* Returns true for an inner node of a tree: all its children are evaluated before it. */
bool eval_is_inner(const session *s, const ast *node);

/* The value of a tree whose root is an inner node. */
int eval_tree(session *s, const ast *node, value *out, kv_err *e);

/* The same for a binary operator whose left side, a leaf, has the value left already. */
int eval_combine(session *s, const ast *node, value left, value *out, kv_err *e);

/* One operator or element-wise function, node, over values of any kind, one for each child. */
int eval_operate(session *s, const ast *node, const value *args, value *out, kv_err *e);

#endif
