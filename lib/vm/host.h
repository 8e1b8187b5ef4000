/* Host numbers: the scalars of the languages, and what operators do to them.
 *
 * binary64 floats, checked 64-bit integers, bools, texts, none; as in Python: / always gives a
 * float, // and % floor, ** of integers stays an integer for exponents >= 0. Integer overflow, //
 * and % of an integer by 0 are errors (value), and so is a comparison by order of a text with a
 * number (dtype). Any number divided by 0 is an error too, as in Python. none equals none; any
 * other comparison with it is false; -none is none.
 */
#pragma once

#include "base/buf.h"
#include "base/mem.h"
#include "lang/ast.h"

typedef enum host_kind { HOST_NONE, HOST_BOOL, HOST_INT, HOST_FLOAT, HOST_TEXT } host_kind;

/* A text is borrowed: from the syntax tree, or from the arena given to the operation. */
typedef struct host {
    host_kind kind;
    uint32_t varies; /* while a rule is compiled: its place among the values that vary from push to
                        push (vm/rule_case.h); 0: it does not, or nobody asks */
    union {
        int64_t integer; /* HOST_BOOL: 0 or 1 */
        double number;
        const char *text;
    } u;
} host;

host host_none(void);
host host_bool(bool x);
host host_int(int64_t x);
host host_float(double x);
host host_text(const char *text);

/* "none", "bool", "int", "float", "text" */
const char *host_kind_name(host_kind kind);

bool host_is_number(host x); /* bool, int or float */
double host_number(host x);  /* of a number */
bool host_truth(host x);     /* not 0, not "", not none */

/* The value of a literal: AST_INT, AST_FLOAT, AST_TEXT, AST_BOOL, AST_NONE. */
host host_literal(const ast *node);

int host_unary(ast_op op, host x, host *out, kv_err *e);

/* Every binary operator but `and` and `or`, which choose what is evaluated. TEXT % x formats one
 * value, see host_format; TEXT + TEXT joins, TEXT * integer repeats; texts compare by bytes. New
 * texts live in a. */
int host_binary(ast_op op, host x, host y, host *out, arena *a, kv_err *e);

/* The same for arithmetic of two floats: only errors of value. */
int host_float_binary(ast_op op, double x, double y, double *out, kv_err *e);

/* Calls a function of host numbers: those of vm/element.h that rules do not have for themselves.
 * floor, ceil and round give an integer where one holds the result. Errors: usage for an
 * unknown name or a wrong number of arguments; dtype for an argument that is not a number. */
int host_call(const char *name, const host *args, int n, host *out, kv_err *e);

/* The same, of a function that was found. */
struct element_function;
int host_apply(const struct element_function *f, const host *args, int n, host *out, kv_err *e);

/* Appends fmt with its % directives replaced: d i s r e f g x o % with flags (- + blank 0 #), width
 * and precision as in Python (%s and %r take anything, %d cuts fractions off, x and o take integers
 * or whole floats, e f g numbers; width and precision of a text count characters). Errors: value
 * (too few or too many values, unknown directive), dtype. */
int host_format(buf *out, const char *fmt, const host *args, int n, kv_err *e);

/* The same as a new text, which lives in a. */
int host_format_text(host *out, const char *fmt, const host *args, int n, arena *a, kv_err *e);

/* Appends x as an f-string field does: spec is what stands behind the colon, or NULL:
 * [[fill]align][sign][#][0][width][, or _][.precision][d s e f g x o b %], as in Python. Without an
 * alignment numbers stand right and texts left. d, x, o and b take whole floats too. Errors: value,
 * dtype. */
int host_format_field(buf *out, host x, const char *spec, kv_err *e);

/* Appends x as print shows it: True, None, 7, 0.1; a text as it is, or quoted when repr is set. */
void host_print(buf *out, host x, bool repr);
