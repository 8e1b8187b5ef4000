/* A run of a plan from inside: its memory, and one chunk of a pass. */
#pragma once

#include "base/mem.h"
#include "vm/plan_pass.h"

/* Chunks that a worker takes at a time; as many sums run side by side. */
enum { GROUP = KERNEL_LANES };

/* Chunks of a part of the work of a large array. */
enum { PART_CHUNKS = 16 };

enum { CHUNK_BYTES = PLAN_CHUNK * 8 };

/* Rows that a worker works on together. */
typedef struct batch {
    int64_t n;
    int64_t *row, *k; /* of each: which row it is, and which of the present ones, or -1 */
    bool whole;       /* they are neighbours, and present; row[0] and k[0] tell the others */
    void *cell[2 * PLAN_MAX_NUMBERS]; /* of each number, one for each row */
    char *spread;                     /* of each number, a chunk: for each element its row's */
} batch;

/* The memory that all workers of a run share. */
typedef struct shared {
    const plan *p;
    const plan_arrays *a;
    uint64_t number[2 * PLAN_MAX_NUMBERS]; /* each in its own type, at the cell's start */
    void *cell[2 * PLAN_MAX_NUMBERS];      /* the cells, as arrays for the programs over numbers */
    char *copies;                          /* a block of copies of each number */
    double *blocks; /* of each sum, nblocks: one of each chunk that a pass goes through, as
                       plan_work_sum has them */
    int64_t nblocks;
    char *kept;         /* the values that are kept, one behind the other */
    int64_t kept_bytes; /* of one of them */
    bool lean;          /* the run uses lean passes */
    char *workers;      /* their memory, worker_bytes each */
    int64_t nchunks, worker_bytes;
} shared;

/* The memory of one worker. */
typedef struct runner {
    shared *s;
    const plan *p;
    const plan_arrays *a;
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
    const float *more; /* NULL, or to be added to input, which is array 1 of a whole program */
} chunk;

/* Of one element of number i. */
static inline size_t plan_work_number_bytes(const plan *p, int i)
{
    return p->number_type[i] == PROG_F32 ? 4 : 8;
}

/* Workers that a run over arrays of so many elements has. Steps may have larger matrices. */
int plan_work_workers(const plan *p, int64_t size);

/* Bytes of scratch memory for what the workers share and for each of them. */
int64_t plan_work_bytes(const plan *p, int64_t size, int64_t room_bytes);

/* Makes what the workers share at the beginning of memory of plan_work_bytes, then each worker
 * in its own part, from s->workers on. */
shared *plan_work_make_shared(const plan *p, const plan_arrays *a, char *memory);
runner *plan_work_make_worker(shared *s, char *memory);

/* Rows of a batch, whose elements are GROUP chunks at most if a row is at most a chunk. */
int64_t plan_work_batch_rows(const plan_arrays *a);

runner *plan_work_worker(shared *s, int worker);

/* The address of the terms of a sum, number `term` of those that programs write, or element `from`
 * of the array that holds them; if the sum is of squares, of what they are the squares of. */
char *plan_work_terms(runner *r, const plan_pass *pass, int sum, int64_t from, int64_t term);

/* As kernel_sum, of float32 or float64, for so many lanes and any n; all of the terms are squared,
 * or none. One lane takes as long as several. */
void plan_work_sum(prog_type type, const kernel_terms *terms, int count, int lanes, int64_t n);

/* Takes the memory of kept values if it is not scratch memory; mem_free_data gives it back. NULL:
 * the run needs none; or the memory is refused, and the run keeps nothing, which gives the same
 * bits. */
void *plan_work_take_kept(shared *s);

/* The number of elements, from the first one on, for which a plan keeps all that it keeps: so many
 * can be worked on by lean passes. */
int64_t plan_work_kept(const plan *p, int64_t size);

/* The chunk that programs over elements read number i from. */
char *plan_work_number(const runner *r, int i);

/* Of an element of the array of a slot. */
int64_t plan_work_bytes_of(const runner *r, int slot);

/* The address at which a chunk of the array behind a slot of a pass begins. */
void *plan_work_slot(runner *r, const plan_pass *pass, int slot, const chunk *c);

/* The input of a pass for n elements, those from `from` on of the key or from `at` on of its
 * present rows; NULL if it reads none. */
const void *plan_work_input(runner *r, const plan_pass *pass, int64_t from, int64_t at, int64_t n);

/* The program of a pass on one chunk, if the pass has one. c.input NULL: plan_work_input. */
void plan_work_chunk(runner *r, const plan_pass *pass, chunk c);

/* The program of a pass over numbers, n of each, which stand at `cell`. */
void plan_work_numbers(runner *r, const plan_pass *pass, void *const *cell, int64_t n);

/* All passes over the rows of the arrays: the present ones, or every one. */
void plan_rows_run(shared *s);

/* The address at which the number of a row is read, or written; NULL when the row has none. k: its
 * number among the present rows, or -1: such a row keeps its states. */
char *plan_rows_cell(const plan_arrays *a, const plan_row *m, int64_t row, int64_t k, size_t bytes);

/* By steps: the bytes of memory that plan_grid_run needs beside those of plan_work_bytes, and all
 * steps over the arrays of s. */
int64_t plan_grid_bytes(const plan *p, int workers);
void plan_grid_run(shared *s, char *memory);
