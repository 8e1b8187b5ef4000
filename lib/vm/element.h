/* The table of functions that host numbers, expressions and rules share, and the operations of
 * programs that the operators of the syntax become. */
#pragma once

#include "lang/ast.h"
#include "vm/program.h"

/* Kinds of functions, each of which is computed in a way of its own. Functions of one operation
 * come first. */
typedef enum element_kind {
    FN_ONE,      /* of one element, in its own dtype */
    FN_WHOLE,    /* the same; of a host number an integer, where one holds it */
    FN_FRACTION, /* of one element, a fraction: integers have none */
    FN_TEST,     /* of one element, true or false */
    FN_TWO,      /* of two elements; of more from left to right */
    FN_CLIP,
    FN_WHERE,
    FN_ENDSWITH, /* of host texts */
    FN_F64,      /* from here on only rules have them */
    FN_SUM,
    FN_NORM,
    FN_MEAN,
    FN_MAX,
    FN_MIN, /* traits say of which elements these are */
    FN_MATMUL,
    FN_TURNED,
    FN_NORMAL,
    FN_LARGEST,
    FN_QUANTILE,
    FN_UNIFORM,
    FN_ROWRANK,
    FN_COSINE,
    FN_SPARSE,
    FN_SIZE,
    FN_LEN
} element_kind;

/* Traits, which decide how the update of a rule can be shared, cut and printed. */
enum {
    FN_REDUCES = 1,   /* takes an array, gives one number for all of it */
    FN_BY_ROW = 2,    /* with FN_REDUCES: one number for each row, whose length it reads */
    FN_BY_COLUMN = 4, /* with FN_REDUCES: one number for each column */
    FN_MATRIX = 8,    /* takes matrices, gives one */
    FN_DRAWS = 16,    /* gives an array of random numbers, whatever it takes */
    FN_ASKS = 32,     /* asks how an array is stored: a host number, though an array stands in it */
    FN_MEASURES = 64, /* with FN_ASKS: asks for its size */
    FN_STEPS = 128,   /* only plans by steps do it, of the whole key */
    FN_MERGES = 256   /* only merges have it (vm/merge.h) */
};

typedef struct element_function {
    const char *name;
    element_kind kind;
    prog_op op; /* PROG_NOPS: it is no operation of elements */
    int min, max;
    char takes;
    uint16_t traits;
} element_function;

extern const element_function element_functions[];
extern const int element_function_count;

/* NULL when there is none of this name. */
const element_function *element_find(const char *name);

/* The function that a node calls, which for max and min depends on how many arguments it has; NULL
 * when it calls none of these, or is no call. */
const element_function *element_called(const ast *node);

/* Error: usage, when f does not take n arguments. */
int element_check_count(const element_function *f, int n, kv_err *e);

/* Returns true if only rules know the function. */
bool element_is_of_rules(const element_function *f);

/* The operation of a binary operator. */
prog_op element_op(ast_op op);

/* Returns true if an integer dtype holds x; floating-point ones hold every integer, rounded. */
bool element_holds(kv_dtype dtype, int64_t x);

/* Returns true if x is whole and fits into 64 bits; then *out is it. */
bool element_is_whole(double x, int64_t *out);
