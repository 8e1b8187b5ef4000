/* Element-wise expressions over arrays: operators and functions of a syntax tree, computed together
 * in one pass over memory.
 *
 * A pass computes:
 * - arithmetic + - * / // % **, comparisons, `and or not` of elements (which give 1 or 0);
 * - abs sqrt exp log tanh sin cos asin acos sign clip round floor ceil where isnan isfinite,
 * minimum and maximum, min and max of two.
 *
 * Each operation rounds to the dtype of its own result, which the two operands decide:
 * - two arrays: numpy's promotion, except that float16 with bfloat16 gives float32, and an integer
 * with a float gives that float;
 * - a number never widens an array's dtype. With an integer array it must be whole (dtype) and in
 * the dtype's range (value); a bool array with an integer is an int64 one, with a float a float32
 * one;
 * - / of integers gives float32, sqrt exp log and so on of integers too; comparisons give bool;
 * - none stands for "no bound" in clip, and nowhere else.
 * Shapes are broadcast as numpy does.
 */
#pragma once

#include "kv_array.h"
#include "lang/ast.h"
#include "lang/source.h"
#include "vm/host.h"

/* Returns true if node is one of the operations above: an inner node of an element-wise tree. */
bool expr_is_operator(const ast *node);

/* The value of a leaf of the tree: an array (borrowed), or a number or none when array is NULL. */
typedef struct expr_leaf {
    kv_array *array;
    host number;
    const ast *node; /* (optional, NULL means: whatever is no operator) the leaf itself, for one
                        that looks like an operator, such as a call of the user's own `abs` */
} expr_leaf;

/* Computes tree over its leaves, given in the order from left to right in which they stand. At
 * least one is an array. Out: *out, a new array in the context of the leftmost array, the caller's.
 * Errors, with the place of the operation: shape (sizes that do not fit), dtype, value, usage (a
 * wrong number of arguments), memory, interrupted (base/stop.h); what reading the arrays gives. */
int expr_eval(kv_array **out, const ast *tree, const expr_leaf *leaves, int nleaves,
              const source *src, kv_err *e);
