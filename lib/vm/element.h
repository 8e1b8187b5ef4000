/* What rules and expressions share when they turn syntax into programs. */
#ifndef VM_ELEMENT_H
#define VM_ELEMENT_H

#include "lang/ast.h"
#include "vm/program.h"

/* The operation of a binary operator. */
prog_op element_op(ast_op op);

/* Whether an integer dtype holds x; floating-point ones hold every integer, rounded. */
bool element_holds(kv_dtype dtype, int64_t x);

/* Whether x is whole and fits into 64 bits; then *out is it. */
bool element_is_whole(double x, int64_t *out);

#endif
