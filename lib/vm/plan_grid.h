/* Plans by steps: rules that reduce in more than one way, by columns or to a largest number, or
 * that multiply matrices.
 *
 * A key is a matrix of its rows. A step computes elements of one extent (program.h) in one pass
 * over memory, with the reductions of what it computes, or it is one product or turned matrix.
 * Values that a later step of another extent reads, and results of reductions and products, lie in
 * buffers; everything else is computed again where it is needed. What a step needs is made by those
 * before it, and the key's arrays are written by the last ones alone.
 *
 * Worked example, stored -= input / colmean(input): a step over (rows, columns) that adds up the
 * columns of input; one over (1, columns) that divides the sums; one over (rows, columns) that
 * writes.
 *
 * Reductions are made in float64 and rounded once. A sum over the elements of a row, or of a chunk
 * of an array, is of lanes (vm/kernel_fold.h). Rows are cut into parts, whose results are added
 * from the first to the last; the parts depend on the extent alone, so that the number of threads
 * changes nothing.
 */
#ifndef VM_PLAN_GRID_H
#define VM_PLAN_GRID_H

#include "vm/plan_pass.h"
#include "vm/plan_work.h"

typedef struct grid_slot {
    int slot;           /* of plan.h */
    prog_extent extent; /* shorter ones are repeated */
    int bytes;          /* of an element */
} grid_slot;

typedef struct grid_reduction {
    plan_fold fold;
    plan_over over;
    prog_type type;
    int to; /* a buffer */
} grid_reduction;

typedef enum grid_kind { GRID_ELEMENTS, GRID_MATMUL, GRID_TURNED } grid_kind;

typedef struct grid_step {
    grid_kind kind;
    prog_extent extent; /* of what it computes */
    /* GRID_ELEMENTS */
    prog *program;
    grid_slot *slots;
    grid_reduction *reductions;
    int64_t nslots, slots_cap, nreductions, reductions_cap;
    /* the others: buffers */
    int a, b, to;
    uint8_t depth; /* the axis that a product adds up over */
} grid_step;

typedef struct grid_buffer {
    prog_extent extent;
    prog_type type;
    int64_t offset;
    int first, last; /* steps that use it */
} grid_buffer;

/* What a state of rows or columns, or a line to be printed, is given when all steps have run. */
typedef struct grid_result {
    int slot, buffer;
} grid_result;

struct plan_grid {
    int64_t rows, columns;
    grid_step *steps;
    grid_buffer *buffers;
    grid_result *results;
    int64_t nsteps, steps_cap, nbuffers, buffers_cap, nresults, results_cap;
    int64_t buffer_bytes, partial_bytes, most_slots, most_reductions, product_bytes;
};

int64_t plan_grid_length(const plan_grid *g, uint8_t axis);

/* Rows of a part of a step over such a matrix, and the parts that there are. */
int64_t plan_grid_part_rows(int64_t rows, int64_t columns);
int64_t plan_grid_parts(int64_t rows, int64_t columns);

/* Bytes of memory, beside what s points at, that plan_grid_run needs. */
int64_t plan_grid_bytes(const plan_grid *g, int workers);

/* All steps over the arrays of s. */
void plan_grid_run(shared *s, char *memory);

void plan_grid_print(const plan_grid *g, buf *out);
void plan_grid_free(plan_grid *g);

#endif
