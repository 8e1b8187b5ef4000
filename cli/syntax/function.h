/* The functions of expressions: one table of the registry (name, parameters, help, code) that the
 * evaluator, help and completion read. Element-wise operators and functions over arrays are not
 * here but in vm/expr.h; a function that appears in both is listed here for its help only. */
#pragma once

#include "lang/source.h"
#include "session/session.h"
#include "session/value.h"

#define FUNCTION_MAX_PARAMS 14

/* The arguments of one call, sorted to the parameters of the function. */
typedef struct function_args {
    session *session;
    const struct function *function;
    value v[FUNCTION_MAX_PARAMS]; /* none where not given */
    bool given[FUNCTION_MAX_PARAMS];
    kv_array *array;   /* FUNCTION_ARRAY: the first argument; borrowed */
    kv *store;         /* FUNCTION_STORE: the one in use */
    const value *rest; /* FUNCTION_REST: all positional arguments */
    int64_t nrest;
} function_args;

enum {
    FUNCTION_SHAPE = 1, /* parameter 0 is a shape: leading integers go to it as a tuple */
    FUNCTION_REST = 2,  /* takes any number of positional arguments, in rest: at least as many as it
                           has unmarked parameters; the marked ones are given by name only */
    FUNCTION_ELEMENT = 4, /* element-wise: call is NULL, vm/expr.h and vm/host.h compute it */
    FUNCTION_METHOD = 8,  /* x.f(y) only */
    FUNCTION_ARRAY = 16,  /* parameter 0 is an array, or a value that becomes one */
    FUNCTION_STORE = 32,  /* asks the store in use */
    FUNCTION_OBJECT = 64, /* its array is an object also where it has the shape (), no number */
    FUNCTION_VIEW = 128,  /* its arrays are parts of its arguments; NumPy's are views of them */
    FUNCTION_ROWS = 256,  /* FUNCTION_ARRAY: takes a row_sparse array as it is, not a dense one */
    FUNCTION_CHANGES = 512, /* a method that changes its x */
    FUNCTION_PRELUDE = 1024, /* in the language: call is NULL, function_def its text */
    FUNCTION_VARIANT_SHIFT = 16 /* above it: which of several functions the code is to be */
};

#define FUNCTION_VARIANT(args) ((args)->function->flags >> FUNCTION_VARIANT_SHIFT)

typedef int function_fn(function_args *args, value *out, kv_err *e);

typedef struct function {
    const char *name;
    /* Names of the parameters in order, "low=" when it may be left out; NULL behind the last. All
     * may be given by name. A positional context goes to the one called ctx. */
    const char *params[FUNCTION_MAX_PARAMS + 1];
    int flags;
    function_fn *call;
    const char *help; /* one line */
} function;

/* A function that is written in the language, as prelude.kv has it. The build makes the table of
 * that; a row without a name ends it. */
typedef struct prelude_def {
    function row;
    const char *text;
} prelude_def;

extern const prelude_def prelude_defs[];

/* The function of a name, or NULL. */
const function *function_find(const char *name);

/* Function i of all, from 0, those of the prelude last; NULL behind the last. */
const function *function_at(int i);

/* The text of a function of the prelude, a def; NULL of any other. f: may be NULL. */
const char *function_def(const function *f);

/* The function in C of a method's call, or NULL: x.f(y) is f also where a def has its name, and
 * f(x, y) is the def. */
const function *function_method(const ast *node);

/* "()" where a call of f needs no argument, else "(…)"; f is NULL for a def. */
#define FUNCTION_BRACKETS(f) ((f) && (!*(f)->params || strchr(*(f)->params, '=')) ? "()" : "(…)")

/* Appends "full(shape, v, dtype=, ctx=)". */
void function_usage(buf *out, const function *f);

/* Checks a call before it runs, when only the number and the names of its n arguments are known.
 * call: names them; NULL: all are given by their places. Error: usage. */
int function_check(const function *f, const ast *call, int64_t n, kv_err *e);

/* Checks that the arguments of a call go to the parameters of a def, and the others have defaults.
 * Error: usage, at the argument or the call in its text. */
int function_match(const source *src, const ast *def, const ast *call, kv_err *e);

/* The parameter, from 0, to which argument i of a call goes; -1: none has its name. */
int64_t function_takes(const ast *def, const ast *call, int64_t i);

/* Sets the values of the parameters, which are borrowed, from positional and named arguments.
 * Error: usage (count, unknown name). */
int function_sort(const function *f, const value *args, const ast *call, int64_t n,
                  value sorted[FUNCTION_MAX_PARAMS], kv_err *e);

/* The same, and calls a function that is not element-wise. It begins with *out none. Errors also:
 * those of the function. */
int function_call(session *s, const function *f, const value *args, const ast *call, int64_t n,
                  value *out, kv_err *e);

/* The number of the parameter of a name, or -1. */
int function_param(const function *f, const char *name);

/* ---- Helpers for their code ---- */

/* Where a function puts the array that it makes. function_call makes a value of it, or releases it
 * after an error. */
kv_array **function_makes(value *out);

/* Sets a->array from the first argument, as FUNCTION_ARRAY does before the call: for a function
 * that takes lists, too. Errors: those of value_to_array. */
int function_take_array(function_args *a, kv_err *e);

/* The argument of a parameter that is true or false; false when it was not given. Error: dtype. */
int function_flag(const function_args *args, const char *name, bool *out, kv_err *e);

/* Integers, one an axis: several, or one tuple or list of them. what names one in the message.
 * Errors: dtype, shape (more than an array has axes), value. */
int function_integers(const value *v, int64_t n, const char *what, int *count,
                      int64_t ints[KV_MAX_NDIM], kv_err *e);
/* A shape from a tuple, list or integer. Errors: dtype, shape, value. */
int function_shape(value v, int *ndim, int64_t shape[KV_MAX_NDIM], kv_err *e);
/* dtype from a text such as "float16", the default when v is none. */
int function_dtype(value v, kv_dtype fallback, kv_dtype *out, kv_err *e);
/* Returns true if an argument is a word that names a dtype, float16 or f16. A variable of that name
 * goes first. */
bool function_is_dtype_word(const struct ast *arg);
/* cpu(0) when v is none. Error: dtype when v is no context. */
int function_ctx(value v, kv_ctx *out, kv_err *e);
/* A whole number; also that of an array of one element. Errors: dtype, value. `what` names it in
 * the message. */
int function_int(value v, const char *what, int64_t *out, kv_err *e);
int function_number(value v, const char *what, double *out, kv_err *e);
/* The same for argument i; where it was not given *out stays as it is. */
int function_int_at(const function_args *args, int i, const char *what, int64_t *out, kv_err *e);
int function_number_at(const function_args *args, int i, const char *what, double *out, kv_err *e);
/* A new array, contents undefined: shape is none for (), and the parameters dtype_at and dtype_at +
 * 1 are dtype and ctx, whose device is made available. Errors: those of the three. */
int function_new(kv_array **out, function_args *args, value shape, int dtype_at, kv_dtype fallback,
                 kv_err *e);
/* Ends a function that made *a: gives it as *out when rc is KV_OK, else lets it go. Returns rc, or
 * an error of its own (memory). */
int function_give(value *out, kv_array *const *a, int rc, kv_err *e);
/* The same with a list or tuple of n arrays. */
int function_give_several(value *out, value_kind kind, kv_array *const *a, int n, int rc,
                          kv_err *e);
/* A text, borrowed from v. Error: dtype. */
int function_text(value v, const char *what, const char **out, kv_err *e);
