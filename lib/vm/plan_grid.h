/* Plans by steps: rules that reduce in more than one way, by columns or to a largest number, or
 * that multiply matrices.
 *
 * A key is a matrix of its rows. A step computes elements of one extent (program.h) in one pass
 * over memory, with the reductions of what it computes, or it is one product or turned matrix.
 * Values that a later step of another extent reads, and results of reductions and products, are the
 * numbers of the plan, and lie in buffers; everything else is computed again where it is needed.
 * Steps before it make what a step needs, and only the last ones write the key's arrays.
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
#pragma once

#include "vm/plan_pass.h"
#include "vm/plan_work.h"

/* The memory of a number. */
typedef struct grid_buffer {
    prog_extent extent;
    int first, last; /* steps that use it */
    int64_t offset;
} grid_buffer;

struct plan_grid {
    int64_t rows, columns;
    int64_t buffer_bytes, partial_bytes, most_slots, product_bytes;
    int64_t nbuffers;
    grid_buffer buffers[];
};

/* Measures what a run needs. */
void plan_grid_measure(plan *p);

/* Bytes of memory, beside what plan_work_bytes is for, that plan_grid_run needs. */
int64_t plan_grid_bytes(const plan *p, int workers);

/* All steps over the arrays of s. */
void plan_grid_run(shared *s, char *memory);
