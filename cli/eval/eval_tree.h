/* Trees of operators: see eval.h for everything else. */
#ifndef EVAL_EVAL_TREE_H
#define EVAL_EVAL_TREE_H

#include "lang/ast.h"
#include "session/session.h"

/* Whether node is `and`, `or` or `not`, which choose what is evaluated. */
bool eval_is_logic(const ast *node);

/* Whether node is an inner node of a tree: its children are evaluated first, all of them. */
bool eval_is_inner(const session *s, const ast *node);

/* The value of a tree whose root is an inner node. */
int eval_tree(session *s, const ast *node, value *out, kv_err *e);

/* One operator or element-wise function, node, over values of any kind, one for each child. */
int eval_operate(session *s, const ast *node, const value *args, value *out, kv_err *e);

#endif
