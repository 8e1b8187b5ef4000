/* Running a plan from inside, shared by plan_run.c (passes over arrays) and plan_rows.c (rules by
 * rows).
 */
#ifndef VM_PLAN_RUN_H
#define VM_PLAN_RUN_H

#include "base/mem.h"
#include "vm/plan_pass.h"

/* A sum in the making: blocks of PLAN_CHUNK elements, whatever the pieces it comes in. */
typedef struct total {
    double block, sum; /* hold numbers of the sum's type */
    int64_t n;         /* elements of the block so far */
} total;

/* Chunks that a worker takes at a time; as many sums run side by side. */
enum { GROUP = KERNEL_LANES };

/* Chunks of a part of the work of a large array. */
enum { PART_CHUNKS = 16 };

enum { CHUNK_BYTES = PLAN_CHUNK * 8 };

/* Rows that a worker works on together. */
typedef struct batch {
    int64_t n;
    int64_t *row, *k; /* of each: which row it is, and which of the present ones, or -1 */
    bool whole;       /* they are neighbours, and present */
    void *cell[2 * PLAN_MAX_NUMBERS]; /* of each number, one for each row */
    char *spread;                     /* of each number, a chunk: for each element its row's */
} batch;

/* What all workers of a run share. */
typedef struct shared {
    const plan *p;
    const plan_arrays *a;
    uint64_t number[2 * PLAN_MAX_NUMBERS]; /* each in its own type, at the cell's start */
    void *cell[2 * PLAN_MAX_NUMBERS];      /* the cells, as arrays for the programs over numbers */
    char *copies;                          /* a block of copies of each number */
    double *blocks; /* of each sum, the result of each chunk of a whole array */
    char *workers;  /* their memory, worker_bytes each */
    int64_t nchunks, worker_bytes;
} shared;

/* What one worker has for itself. */
typedef struct runner {
    shared *s;
    const plan *p;
    const plan_arrays *a;
    total totals[PLAN_MAX_NUMBERS];
    char *terms;   /* GROUP chunks of terms of each sum */
    char *normals; /* a chunk for each draw */
    char *input;   /* a chunk of the input, and its room */
    void *scratch; /* of the programs */
    batch batch;   /* of rules by rows */
} runner;

/* The elements of a chunk: n of them from `from` on in the whole array, which are those from `at`
 * on among what the pass goes through. input: their part of the input, if the pass reads it. term:
 * where their terms go. */
typedef struct chunk {
    int64_t from, at, n;
    const void *input;
    int64_t term;
} chunk;

static inline int64_t plan_run_aligned(int64_t bytes)
{
    return (bytes + MEM_ALIGN - 1) & ~(int64_t)(MEM_ALIGN - 1);
}

/* Of one element of number i. */
static inline size_t plan_run_number_bytes(const plan *p, int i)
{
    return p->number_type[i] == PROG_F32 ? 4 : 8;
}

/* Of the pass that has most. */
int plan_run_most_sums(const plan *p);

runner *plan_run_worker(shared *s, int worker);

/* Where the terms of a sum begin that are `term` elements behind the first. */
char *plan_run_terms(const runner *r, const plan_pass *pass, int sum, int64_t term);

/* The chunk that programs over elements read number i from. */
char *plan_run_number(const runner *r, int i);

bool plan_run_reads_input(const plan_pass *pass);

/* The elements' program of a pass on one chunk. */
void plan_run_chunk(runner *r, const plan_pass *pass, const chunk *c);

/* ---- Rules by rows: plan_rows.c ---- */

/* Bytes that a worker's batch of rows needs; 0 for rules that are not by rows. */
int64_t plan_rows_bytes(const plan *p, int64_t size);

/* Makes the worker's batch in that memory. */
void plan_rows_init(runner *r, char *memory);

/* All passes over the rows of the arrays: those that are present, or every one. */
void plan_rows_run(shared *s);

/* Where the number of a row is read, or written; NULL when the row has none there. k: which of the
 * present rows it is, or -1: such a row keeps its states. */
char *plan_rows_cell(const plan_arrays *a, const plan_row *m, int64_t row, int64_t k, size_t bytes);

#endif
