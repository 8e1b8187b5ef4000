/* Plans: a rule's element work for one key, as programs over the arrays.
 *
 * A rule without reductions is one program. A reduction needs the whole array before its number is
 * known, so operations that use the number wait for the next pass: pass 0 computes the values that
 * need no reduced number, pass 1 those that need numbers of pass 0, and so on. Values that are one
 * number for all elements (roots of sums, ratios) have passes of their own, over numbers, ahead of
 * those that read them. A value that two passes need is computed again, from an array that an
 * earlier pass stored, if there is one; a store waits for the last pass that still reads the old
 * contents of its array. So a pass costs reads of the arrays it needs and no temporary array.
 *
 * In host memory, where the processor may be slower than the memory, passes have lean forms as
 * well: values with divisions and roots are kept in temporary arrays, up to a size, and sums of
 * what an array holds, or of its squares, read the array. All results are the same bits.
 *
 * Worked example, LAMB: pass 0 reads weight, gradient, mean, var, writes mean and var, and sums the
 * squares of the weight and of the direction; pass 1 reads weight, mean and var, computes the
 * direction again, and writes the weight. Lean: pass 0 writes the direction, too; pass 1 reads
 * weight and direction.
 *
 * Sums: in element order within blocks of PLAN_CHUNK consecutive elements, then the results of the
 * blocks from left to right.
 */
#pragma once

#include "vm/prog_numbers.h"
#include "vm/program.h"

/* Elements of a chunk, on which one call of a program works; also a block of a sum. */
#define PLAN_CHUNK 4096

#define PLAN_MAX_STATES 16
#define PLAN_MAX_DRAWS  4
#define PLAN_MAX_PRINTS 16

/* The slots of a plan's graph: a kind, to which the place among its kind is added. The rows that a
 * row_sparse input holds have slots of their own, so that values read before `rows present` and
 * behind it never mix. One meeting is allowed: a store to the whole of a state comes before every
 * load of its present rows. */
enum {
    PLAN_PRESENT = 1 << 16, /* added to the first six kinds: in the present rows */
    PLAN_KIND = 1 << 18,    /* from one kind to the next */

    PLAN_STORED = 0,
    PLAN_INPUT = 1 * PLAN_KIND,
    PLAN_STATE = 2 * PLAN_KIND,
    PLAN_WEIGHT = 3 * PLAN_KIND,    /* written: stored rounded to the key's dtype */
    PLAN_NORMAL = 4 * PLAN_KIND,    /* standard normal numbers, by draw */
    PLAN_PRINT = 5 * PLAN_KIND,     /* written: an array to be printed */
    PLAN_ROW_STATE = 6 * PLAN_KIND, /* the number that a state holds for the row */
    PLAN_ROW_BEGIN = 7 * PLAN_KIND, /* written: the same, in absent rows only */
    PLAN_ROW_PRINT = 8 * PLAN_KIND, /* written: a number to be printed: one of each row, or of the
                                       whole array */
    PLAN_ROW_PRINT_PRESENT = 9 * PLAN_KIND, /* written: one of each present row */
    PLAN_COLUMN_STATE = 10 * PLAN_KIND,     /* what a state holds for the column */

    /* Inside plans: */
    PLAN_NUMBER = 11 * PLAN_KIND, /* a number of the plan, for all elements or for their row */
    PLAN_TERMS = 12 * PLAN_KIND,  /* written: the terms of a sum of the pass */
    PLAN_KEPT = 13 * PLAN_KIND,   /* a value that passes keep for later ones */
    PLAN_MERGE = 14 * PLAN_KIND   /* and on: arrays of merges (merge.h) */
};

static inline int plan_slot_kind(int which)
{
    return which & ~(PLAN_KIND - 1);
}

static inline int plan_slot_index(int which)
{
    return which & (PLAN_PRESENT - 1);
}

/* ---- Building: operations for a prog_builder beside those of program.h ---- */

/* Ways to reduce, and the elements that are reduced to one number each: all, those of each row, or
 * those of each column. nan if a term is.
 *
 * Plans of merges alone have the last two, and reduce everything. PLAN_ORDER is the term that has
 * `order` smaller ones before it in sorted order; nan if any is. PLAN_LEAST decides which terms are
 * the `order` largest, with order from 1 to all but one: the smallest of them, and of the terms
 * that equal it the first ones in the order of elements are among them, as many as there is room
 * for. In a later pass the number is that term for elements up to the last one that is in, and the
 * next larger number behind it, nan behind inf; so that `term >= number` tells which are in. Its
 * terms are no nan. */
typedef enum plan_fold {
    PLAN_SUM,
    PLAN_MAX,
    PLAN_MIN,
    PLAN_FOLDS, /* those of every rule */
    PLAN_ORDER = PLAN_FOLDS,
    PLAN_LEAST
} plan_fold;
typedef enum plan_over { PLAN_OVER_ALL, PLAN_OVER_COLUMNS, PLAN_OVER_ROWS } plan_over;
/* x repeated to an array: a constant, say, of which all elements are reduced. */
prog_value plan_spread(prog_builder *b, prog_value x, prog_extent extent);

/* x reduced to numbers. All zero: to the sum of all elements. */
typedef struct plan_reduction {
    plan_fold fold;
    plan_over over;
    bool present;  /* of the elements of the present rows */
    int64_t order; /* of PLAN_ORDER and PLAN_LEAST */
} plan_reduction;
prog_value plan_reduce(prog_builder *b, prog_value x, plan_reduction how);

/* The product of two matrices, which the columns of x and the rows of y allow, and a matrix whose
 * rows are the columns of x. */
prog_value plan_matmul(prog_builder *b, prog_value x, prog_value y);
prog_value plan_turned(prog_builder *b, prog_value x);

/* What a state holds: one number for each element, row or column, as its slot says. */
prog_value plan_load_state(prog_builder *b, int slot, prog_type type);

/* How long a value is along both axes. */
prog_extent plan_extent(const prog_builder *b, prog_value x);

/* Makes *extent what both have together, repeating what is one number along an axis. Returns false
 * if they do not fit: their rows or their columns are of two lengths. */
bool plan_join(prog_extent *extent, prog_extent other);
void plan_extent_text(buf *out, prog_extent extent); /* "(rows, columns)" */

/* The value that x would have if absent rows were computed like the others: every load of present
 * rows becomes one of the whole array. Numbers stay what they are. */
prog_value plan_whole(prog_builder *b, prog_value x);

typedef struct plan plan;

/* How a rule works. */
typedef struct plan_way {
    prog_type type; /* what it computes in */
    bool by_rows;   /* sums are of the elements of one row, and row states exist */
    /* It has reductions other than sums over the whole array or over a row, or products of
     * matrices. Then it works step by step (vm/plan_grid.c) on host memory, and knows no present
     * rows. */
    bool steps;
    int64_t rows, columns; /* of the key; read where `steps` is set */
} plan_way;

/* Splits what b holds into passes. out NULL: only errors are found, and none by steps. Errors:
 * those of prog_finish, and too many reductions. */
int plan_make(plan **out, prog_builder *b, plan_way way, kv_err *e);

/* Plans are counted: a push that runs later keeps the one that it was prepared with. The last
 * plan_free frees it; NULL is fine. */
plan *plan_ref(plan *p);
void plan_free(plan *p);

/* A plan whose rule has numbers (prog_numbers.h) reads the constants of a run from a pool of so
 * many bytes, which plan_fill_pool fills; values[i] is number i. */
int64_t plan_pool_bytes(const plan *p);
void plan_fill_pool(const plan *p, const prog_number *values, uint64_t *pool);

/* ---- Running ---- */

/* The arrays of one key. Elements are counted in the key's own, row-major order. */
typedef struct plan_arrays {
    void *stored; /* of the type that the rule computes in, or the key's dtype */
    kv_dtype stored_dtype;
    void *weight; /* PLAN_WEIGHT, or NULL */
    kv_dtype weight_dtype;
    void *states[PLAN_MAX_STATES]; /* of the rule's type; a row state has one number a row */
    void *prints[PLAN_MAX_PRINTS]; /* PLAN_PRINT: of present rows those alone, end to end */
    kv_dtype print_dtypes[PLAN_MAX_PRINTS]; /* of numbers: the rule's type */
    int64_t size;                           /* elements */
    int64_t row;                            /* elements of one row; 1 when size is 0 */
    bool far; /* no cache holds them, be it that others are worked on in between */

    /* The elements from … from + n - 1 of the input, n at most PLAN_CHUNK, as input_dtype; absent
     * rows are zeros. `room` is memory for n of them, to be used or not. */
    const void *(*input)(void *arg, int64_t from, int64_t n, void *room);
    kv_dtype input_dtype;
    const void *input_lies;      /* all of the input, if it lies in memory as it is; or NULL */
    const float *input_terms[2]; /* two float32 arrays whose sum the input is; or NULL */
    int64_t room_bytes;          /* of room, beside n elements of 8 bytes each */

    /* With `rows present` and a row_sparse input: the ids of its rows, ascending, and the elements
     * from … of those rows laid end to end. rows NULL: every row is present. */
    const int64_t *rows;
    int64_t nrows;
    const void *(*input_rows)(void *arg, int64_t from, int64_t n, void *room);
    void *arg;

    const uint64_t *pool; /* of plan_fill_pool; NULL: the numbers are those that it was made with */

    /* The stream that normal() draws from (base/philox.h). */
    uint64_t seed;
    int64_t t;
} plan_arrays;

/* Bytes of scratch memory, aligned to 64, that plan_run needs for arrays of size elements. */
int64_t plan_scratch_bytes(const plan *p, int64_t size, int64_t room_bytes);

/* Runs all passes, large arrays on the thread pool: the results do not depend on how many threads
 * there are. Cannot fail. */
void plan_run(const plan *p, const plan_arrays *a, void *scratch);

/* Returns true if the elements of an array can be worked on in parts, in any order and at the same
 * time, since no number needs all of them first. rows: of plan_arrays. */
bool plan_splits(const plan *p, const int64_t *rows);

/* Runs such a plan on the elements from … from + n - 1; from is a multiple of PLAN_CHUNK. scratch:
 * plan_scratch_bytes for n elements, of this thread alone. */
void plan_run_part(const plan *p, const plan_arrays *a, int64_t from, int64_t n, void *scratch);

/* Returns true if plan_run itself spreads the work of arrays with size elements over the pool. */
bool plan_is_parallel(int64_t size);
