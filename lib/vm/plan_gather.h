/* Present rows that lie apart: their elements are gathered into blocks, on which the program of a
 * pass runs as on whole arrays, and what it changed is scattered back. A run of the program for
 * each row would cost more than its elements do when the rows are short.
 */
#ifndef VM_PLAN_GATHER_H
#define VM_PLAN_GATHER_H

#include "cpu/cpu.h"
#include "vm/plan_work.h"

/* The arrays of a pass that have one row for each row of the key, and room for some rows of each.
 */
typedef struct plan_gather {
    int64_t rows;       /* that are gathered at a time; 0: the pass works on rows where they are */
    plan_arrays arrays; /* those of the key, but of the gathered rows where an array is listed */
    row_move list[PLAN_MAX_STATES + 2]; /* first those that are read */
    bool writes[PLAN_MAX_STATES + 2];
    row_move written[PLAN_MAX_STATES + 2];
    int n, nread, nwritten;
    _Alignas(64) char room[64 << 10];
} plan_gather;

/* A run of present rows with at least as many elements is worked on where it is. */
enum { PLAN_GATHER_ALONE = 512 };

/* Prepares for a pass over present rows. */
void plan_gather_init(plan_gather *g, const runner *r, const plan_pass *pass);

/* Runs the pass on n present rows from number k on, at most g->rows; more: as many follow them. */
void plan_gather_run(plan_gather *g, runner *r, const plan_pass *pass, int64_t k, int64_t n,
                     int64_t more);

#endif
