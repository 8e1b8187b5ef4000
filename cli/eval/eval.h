/* Expressions: from syntax tree to value, in the scope of the running function. */
#pragma once

#include "array/reduce.h"
#include "base/mem.h"
#include "kv_array.h"
#include "lang/ast.h"
#include "session/containers.h"
#include "session/result.h"
#include "session/session.h"
#include "session/unit.h"
#include "vm/host.h"

/* ---- One element operation ---- */

/* One element operation over whole arrays, for functions that are made of several. Shapes broadcast
 * and dtypes are as in expressions (vm/expr.h). */

/* a op number */
int eval_op_number(kv_array **out, ast_op op, kv_array *a, host number, kv_err *e);

/* name(a), or name(a, low, high) where bounds is not NULL. */
int eval_op_call(kv_array **out, const char *name, kv_array *a, const int64_t *bounds,
                 kv_err *e);

/* Whether all elements are not 0, or with REDUCE_ANY one is. */
int eval_op_bools(kv_array *a, reduce_op op, bool *out, kv_err *e);

/* ---- Texts with fields ---- */

/* Appends v as the field of an f-string does. how: 'r' or 's' of {v!r}, or 0. format: what stands
 * behind the colon, or NULL. Errors: dtype, value. */
int text_put_field(session *s, buf *out, value v, char how, const char *format, kv_err *e);

/* ---- Expressions ---- */

/* The value of an expression; the caller releases it. Errors have the place of their node. */
int eval(session *s, const ast *node, value *out, kv_err *e);

/* *out becomes true if the value counts as true: a number other than 0, a text, list or dict that
 * is not empty. Error: value (an array of other than one element). */
int eval_truth(value v, bool *out, kv_err *e);

/* The same, but an array counts as true when all its elements do. */
int eval_truth_of_all(value v, bool *out, kv_err *e);

/* The truth of an expression. */
int eval_condition(session *s, const ast *node, bool *truth, kv_err *e);

/* The arguments of a call. */
int eval_args(session *s, const ast *node, value_stack *l, kv_err *e);

/* A text: of AST_TEXT, AST_FTEXT, a variable or an expression that gives one. what names it in the
 * error (dtype). */
int eval_text(session *s, const ast *node, const char *what, value *out, kv_err *e);

/* The same for the code of a command: the text lives as long as its result. NULL after an error. */
const char *eval_word(session *s, const ast *node, const char *what, result *out, kv_err *e);

/* The path of a file, where `-` is none: "WHAT in a file, not in a stream" (usage). */
const char *eval_file(session *s, const ast *node, const char *what, result *out, kv_err *e);

/* An integer; what names it in errors. */
int eval_int(session *s, const ast *node, const char *what, int64_t *out, kv_err *e);

/* The same in the range of int32. */
int eval_int32(session *s, const ast *node, const char *what, int32_t *out, kv_err *e);

/* One context or a list of them. Out: a context, or a list of contexts; virtual GPUs are made. */
int eval_contexts(session *s, const ast *node, value *out, kv_err *e);

/* base[…]: the value of an AST_INDEX. */
int eval_index(session *s, const ast *node, value *out, kv_err *e);

/* target op= value; node: the AST_BINARY of both. */
int eval_update(session *s, const ast *node, kv_err *e);

/* Indices as an array: of a list an array of int64, or bool for a mask. Errors: dtype, shape. */
int eval_ids(value v, kv_array **out, kv_err *e);

/* target[…] = v, target a variable. */
int eval_assign_index(session *s, const ast *target, value v, kv_err *e);

/* Gives targets a value, which is taken, also on failure. own: the scope of a comprehension, whose
 * names they are; NULL: they are the running function's. */
int eval_give(session *s, const ast *target, value v, scope *own, kv_err *e);

/* Gives target each item of the value of list in turn and calls body, until it clears *on or
 * fails. There are items in lists, tuples, dicts (the keys), texts (characters) and arrays (along
 * the first axis). own: as above. */
typedef int (*eval_body)(session *s, void *arg, bool *on, kv_err *e);
int eval_each(session *s, const ast *list, const ast *target, scope *own, eval_body body, void *arg,
              kv_err *e);

/* A new list of the items of v. Error: dtype (it has none). */
int eval_items_of(value v, value *out, kv_err *e);
/* The array that node gave becomes a list of its rows; none after an error. */
int eval_rows(session *s, const ast *node, value *array, kv_err *e);

/* The scope of a comprehension begins and ends. */
void eval_enter(session *s, scope *own);
void eval_leave(session *s, scope *own);

/* The values of nodes of these kinds: eval_logic is of `and`, `or` and `not`. */
int eval_logic(session *s, const ast *node, value *out, kv_err *e);
int eval_choice(session *s, const ast *node, value *out, kv_err *e);
int eval_test(session *s, const ast *node, value *out, kv_err *e);
int eval_chain(session *s, const ast *node, value *out, kv_err *e);
int eval_comp(session *s, const ast *node, value *out, kv_err *e);

/* KEYS. A single key has list false. Names stay valid as long as the list. */
typedef struct key_list {
    kv_key *keys;
    int64_t n, cap;
    bool list;
    arena names;
} key_list;

int eval_keys(session *s, const ast *node, key_list *out, kv_err *e);
/* Adds the keys of a store that match a pattern, NULL for all, in the order of updates. */
int eval_matching(kv *store, const char *pattern, key_list *l, kv_err *e);
void key_list_release(key_list *l);
#define own_key_list OWN(key_list_release) key_list

/* ---- Trees of operators ---- */

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

/* ---- Parts of arrays ---- */

/* Parts of arrays are copies; in NumPy they are views. What changes one in place says so, once,
 * unless the text puts the copy back into the array. */

/* The same for all arrays in the result of a call, whose arguments are n wholes. */
void eval_mark_parts(session *s, const ast *node, const value *wholes, int64_t n, value parts);
/* The same for a row that is taken out of the value of node. */
void eval_mark_row(session *s, const ast *node, value whole, value row);

/* Warns before v, the value of node, is changed in place, where it holds such parts. */
void eval_warn_parts(session *s, const ast *node, value v);

/* ---- Functions of the script ---- */

/* Runs a STMT_DEF: evaluates the defaults. Errors: unsupported (it reads variables of the function
 * around it), those of the defaults. */
int eval_def(session *s, const ast *node, def_values **out, kv_err *e);
