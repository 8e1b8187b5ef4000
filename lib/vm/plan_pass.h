/* Plans from inside, shared by plan_make.c (from graph to passes) and the files that run them. */
#pragma once

#include "vm/plan.h"
#include "vm/prog.h"

/* More of these than any rule that a person would write. */
#define PLAN_MAX_LEVELS  8
#define PLAN_MAX_PASSES  (3 * PLAN_MAX_LEVELS)
#define PLAN_MAX_NUMBERS 160
#define PLAN_MAX_SLOTS   640

/* Values that passes keep for later ones; what is beyond is computed again. */
#define PLAN_MAX_KEPT 4

/* Memory for all of them in one run, so that a large array does not cost as much again. What is
 * behind is computed again: roots and quotients of float64, as lamb has them, take a core three
 * times as long as memory does to write and to read a float32. */
#define PLAN_KEPT_BYTES (48 << 20)

/* A reduction of whole arrays, or of those of rows. */
typedef struct plan_total {
    int16_t number; /* the number that it gives */
    int32_t array;  /* lean passes: the slot of an array whose elements, or their squares, are the
                       terms, so that no program writes them; or -1 */
    bool squares;
    uint8_t fold, over; /* a plan_fold and a plan_over: sums, but in plans of merges and by steps */
    int64_t order;      /* of PLAN_ORDER and PLAN_LEAST */
} plan_total;

/* Only plans by steps have the last two. */
typedef enum plan_does { PLAN_ELEMENTS, PLAN_PRODUCT, PLAN_TURN } plan_does;

typedef struct plan_pass {
    uint8_t does, depth; /* a plan_does; the axis that a product adds up over */
    int16_t a, b, to;    /* PLAN_PRODUCT, PLAN_TURN: numbers */
    prog_extent extent;  /* of what the pass computes */
    prog *program;       /* PLAN_ELEMENTS */
    bool present;        /* over the elements of the present rows */
    bool reads_input;
    int nslots;    /* of the program */
    int32_t *slot; /* what each of them is (plan.h) */
    int nsums;
    plan_total *sum;
    /* The same for host memory, with values that are kept and sums of what arrays hold; or NULL.
     * Not for the rows of a row_sparse input. */
    struct plan_pass *lean;
} plan_pass;

/* A slot from PLAN_ROW_STATE on, and the number that it is read into before a row, or written from
 * behind it; by steps, written from when all have run. */
typedef struct plan_row {
    int32_t slot;
    int16_t number;
    bool write;
} plan_row;

#define PLAN_MAX_ROWS (3 * PLAN_MAX_STATES + PLAN_MAX_PRINTS)

/* The memory of a number. */
typedef struct grid_buffer {
    prog_extent extent;
    int first, last; /* steps that use it */
    int64_t offset;
} grid_buffer;

/* Of a plan by steps: the key is a matrix of rows, and the numbers lie in buffers. */
typedef struct plan_grid {
    int64_t rows, columns;
    int64_t buffer_bytes, partial_bytes, most_slots, product_bytes;
    int64_t nbuffers;
    grid_buffer buffers[];
} plan_grid;

struct plan {
    int64_t refs;    /* atomic */
    prog **programs; /* all of them */
    int64_t nprograms, pool_words;
    plan_grid *grid; /* its passes are steps (plan_grid.c), and have the numbers; or NULL */
    prog_type type;
    bool by_rows;
    bool every_row; /* by rows, absent rows have something written too */
    int npasses, nnumbers, nrows;
    int most_sums, ndraws; /* sums of the pass that has most; draws of normal() */
    int64_t program_bytes; /* of scratch memory for any of its programs */
    uint8_t *number_type;
    plan_row row[PLAN_MAX_ROWS];
    int nkept;       /* values that are kept */
    bool wide_kept;  /* there are float64 ones */
    bool sums_input; /* a lean pass has a sum whose terms are those of the input */
    int most_passes, all_passes;
    plan_pass pass[]; /* most_passes of them, then lean ones: all_passes */
};

/* Returns true if a pass computes numbers, not elements; by rows one of each row. */
static inline bool plan_pass_is_of_numbers(const plan_pass *pass)
{
    return !pass->extent.rows || !pass->extent.columns;
}

/* The constants of one of p's programs in a run over a; NULL: those it was made with. */
static inline const uint64_t *plan_pool_of(const plan_arrays *a, const prog *of)
{
    return a->pool ? a->pool + of->pool_at : NULL;
}

/* Where the address of the key's array behind a slot stands in a; NULL: there is none. */
void *const *plan_array_of(const plan_arrays *a, int slot);

/* Measures what a run by steps needs. */
void plan_grid_measure(plan *p);
