/* Running plans on a device where rows matter: rules whose input is some rows of a row_sparse key,
 * and rules that work row by row (vm/plan_text_rows.h). A kernel is one launch for all neighbours
 * in a list that have the same text.
 */
#ifndef VM_PLAN_GPU_ROWS_H
#define VM_PLAN_GPU_ROWS_H

#include "array/device.h"
#include "vm/plan.h"

/* The rows that an input has: all of them, or those of a row_sparse sum. */
typedef enum plan_input {
    PLAN_INPUT_ALL,    /* all */
    PLAN_INPUT_SPREAD, /* some; the others are zeros, and present too */
    PLAN_INPUT_PRESENT /* some, which alone are present */
} plan_input;

/* The work on one key. Places of arrays are the device's. */
typedef struct plan_gpu_rows_item {
    const plan *plan;
    plan_input rows;
    const plan_arrays *arrays; /* stored, weight, states; size, row, seed and t */
    const void *input;         /* the rows laid end to end */
    const int64_t *ids;        /* of the rows of the input, and how many there are */
    int64_t nids;
    const int64_t *places;     /* NULL, or of each row of the key which of the input it is, or -1 */
} plan_gpu_rows_item;

/* Whether a plan can run this way, with nothing printed. */
bool plan_gpu_rows_possible(const plan *p);

/* Whether it works row by row. */
bool plan_gpu_rows_is_by_row(const plan *p);

/* Whether an item of it needs the places. */
bool plan_gpu_rows_has_places(const plan *p, plan_input rows);

/* Compiles what the plan needs, so that running it will not have to.
 * Errors: unsupported, memory. */
int plan_gpu_rows_prepare(const gpu_ops *gpu, int id, const plan *p, plan_input rows, kv_err *e);

/* Runs all items, which touch no array of each other and have elements. Errors: memory, those of
 * the device. */
int plan_gpu_rows_run(const gpu_ops *gpu, int id, const plan_gpu_rows_item *items, int64_t n,
                      kv_err *e);

#endif
