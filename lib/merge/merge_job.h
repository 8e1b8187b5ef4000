/* Merges from inside: a job is a key while it is merged, a worker the memory in which one thread
 * computes a chunk of it. lib/README.md tells the way of a merge, and the sizes of pieces, blocks
 * and chunks.
 *
 * A number is the result of a reduction over all elements of a key: a sum, a largest or smallest
 * term, or a selected one (merge_select.h). One pass makes it, later ones read it.
 */
#pragma once

#include <stdatomic.h>

#include "merge/merge.h"
#include "merge/merge_adapter.h"
#include "merge/merge_select.h"
#include "tensors/walk.h"
#include "vm/plan_pass.h"

#define MERGE_INPUTS (MERGE_MODELS + 1) /* the models, then the base */

/* Elements of an input that are read at once. */
#define MERGE_BLOCK ((int64_t)1 << 15)

/* The most memory for ranks, of all workers together. */
#define MERGE_RANKS_BYTES ((int64_t)96 << 20)

typedef enum merge_job_kind {
    MERGE_JOB_RULE,  /* the rule computes it */
    MERGE_JOB_EQUAL, /* of integers or BOOL: must be equal in all inputs, and is copied */
    MERGE_JOB_COPY   /* the first one's, converted: no adapter has it, or integers may differ */
} merge_job_kind;

/* An input of a key that more than one pass reads: mapped for all of them and all threads, or,
 * where it is inflated, each MERGE_BLOCK is kept from when it is first read. */
typedef struct merge_mapped {
    file_window window;
    char *kept;        /* its blocks; NULL: they are not kept */
    bool *has;         /* of each MERGE_BLOCK: it is in `kept` */
    const char *bytes; /* mapped; NULL: it is read, or mapped by parts */
} merge_mapped;

/* A number of the plan of a key. */
typedef struct merge_number {
    uint64_t value;       /* in its own type, at the start of the 8 bytes */
    merge_select *select; /* NULL: it is not a selection */
    bool selected;        /* its selection is done */
    int16_t pass, sum;    /* the pass that makes it, and its place in pass.sum */
} merge_number;

typedef struct merge_job {
    int64_t key; /* its index in merge.keys */
    merge_job_kind kind;
    const tensor_info *like;  /* the tensor of this name in the base, or else in the first model */
    tensor_type type;         /* of the output */
    bool wide;                /* computed in float64, not float32 */
    bool last;                /* what overflows is counted; else the key is merged again */
    int64_t lost_before;      /* where it is merged again in float64: elements that overflowed */
    int width;                /* bytes of an element while it is computed: 4 or 8 */
    int64_t at[MERGE_INPUTS]; /* its tensor's index in each input, or -1 */
    tensor_type types[MERGE_INPUTS]; /* of these tensors */
    int64_t piece;            /* elements of each piece but the last */
    int64_t npieces;
    int64_t chunks; /* of a piece */

    /* MERGE_JOB_RULE only. */
    const merge_plan *plan; /* shared by all keys of a shape, or `own` */
    merge_plan own;
    merge_product *product;    /* of each adapter that has the key, in the order of the models */
    int nproducts;
    uint64_t *draw;            /* of each draw of the plan: the upper half of its counters */
    int pass;                  /* the one that runs */
    bool again;                /* it runs once more, for selections that are not done */
    merge_number *number;
    merge_mapped *mapped;      /* by input */
    atomic_llong *lost;        /* its elements that overflowed (merge_run.c) */
    double *results;           /* npieces rows, in each the sums of the pass over that piece */
} merge_job;

typedef struct merge_worker {
    int pool_worker; /* the number of its thread in the pool */
    const struct merge_room *room;
    tensor_reader *const *readers; /* of each input */
    const merge_job *job;
    int64_t piece_first, piece_end;
    int64_t block_first, block_n, block_most;
    const void *block[MERGE_INPUTS]; /* the bytes of the block of each input; NULL: not read yet */

    /* The chunk: n elements of the key from `first` on; `chunk` is its index in the key. */
    int64_t first, n, chunk;
    /* Its elements as programs read them; NULL: not made yet. */
    void *input[MERGE_INPUTS], *draw[MERGE_MODELS], *product[MERGE_MODELS];

    /* The job, and the pass of it, whose numbers are in `copies`. */
    const merge_job *copied;
    int copied_pass;

    /* Parts of its memory. A buffer holds a chunk of decoded elements. */
    char *inputs, *draws, *products; /* a buffer for each */
    char *terms;   /* a buffer for each sum of all passes */
    char *merged;  /* a buffer for the merged elements, before they are encoded */
    char *copies;  /* each number repeated over PROG_REG_BYTES, then merge_select_next of it */
    char *ranks;   /* of a piece, for each ranking */
    char *sorting; /* scratch memory of row_ranks */
    char *out;     /* a piece of the output, encoded */
    void *scratch; /* of the programs */
} merge_worker;

/* The checkpoint whose names, shapes and types the output has: the base, or else the first model.
 */
checkpoint *merge_first(const merge *m);

/* Makes the job of key number `key` from the headers of the inputs, without a plan. Out: factors,
 * of adapters the tensors that each has for the key. Errors: those of merge_check. */
int merge_job_find(merge_job *j, merge_factors *factors, const merge *m, int64_t key, kv_err *e);

/* Returns true if the programs of a job read an input as bfloat16. */
static inline bool merge_reads_bf16(const merge_job *j, int input)
{
    return !j->wide && j->at[input] >= 0 && j->types[input] == TENSOR_BF16;
}

/* Cuts a job that has its plan into pieces. Error: unsupported (a row too long for its ranks). */
int merge_job_cut(merge_job *j, kv_err *e);

/* The sizes of a worker's buffers: large enough for each job of a batch. */
typedef struct merge_room {
    int inputs, draws, products, numbers, sums;
    int64_t out_bytes, ranks_bytes, sorting_bytes, scratch_bytes;
} merge_room;

/* Grows the sizes to those that a job needs. ninputs: the inputs of the merge, with the base. */
void merge_room_add(merge_room *room, const merge_job *job, int ninputs);

/* The bytes of a worker's buffers; and a worker with its buffers in so much memory, which is
 * aligned to MEM_ALIGN and stays the caller's. */
int64_t merge_room_bytes(const merge_room *room);
void merge_worker_init(merge_worker *w, const merge_room *room, char *memory);

/* The elements of a row: of all axes behind the first; of a vector all. */
int64_t merge_row_of(const tensor_info *t);

/* Begins a job of kind MERGE_JOB_RULE whose pass reads no ranks: chunks may lie anywhere in it. */
void merge_worker_job(merge_worker *w, const merge_job *job, tensor_reader *const *readers);

/* lost[i] becomes true for each of the n elements of the chunk, merged at `merged`, that is not
 * finite while all that it was made of is. Errors: those of tensor_read. */
int merge_worker_lost(merge_worker *w, const void *merged, bool *lost, kv_err *e);

/* Begins a piece of a job of kind MERGE_JOB_RULE: its chunks follow. Errors: those of tensor_read.
 */
int merge_worker_piece(merge_worker *w, const merge_job *job, const walk_piece *p, kv_err *e);

/* Begins a chunk of the piece: n elements from `first` on, at most MERGE_CHUNK; chunk is its index
 * in the key. Chunks of a piece come in order. */
void merge_worker_chunk(merge_worker *w, int64_t first, int64_t n, int64_t chunk);

/* Runs the program of a pass on the chunk. The terms of its sum i are then at
 * merge_worker_terms(w, pass, i), the merged elements at `merged`, or in w->merged if that is NULL.
 * Errors: those of tensor_read. */
int merge_worker_run(merge_worker *w, int pass, void *merged, kv_err *e);

/* The same where merged elements may be BF16 at once (prog_pack); *done becomes false where they
 * may not, and merge_worker_run does it. */
int merge_worker_pack(merge_worker *w, int pass, void *merged, bool *done, kv_err *e);
void *merge_worker_terms(const merge_worker *w, int pass, int sum);

/* Returns true if a pass has a slot of a kind: it reads ranks, or stores to MERGE_MERGED. */
bool merge_job_uses(const merge_job *job, int pass, int kind);

/* rank[i], from 0 to 1, tells the place of terms[i] among all n: place / (n - 1). Of equal terms
 * the first is the smaller; -0 equals 0; nan is above all. 0.5 if n is 1. Terms and ranks are
 * float32, or float64 if wide, and may be one array. scratch: sort_order_bytes of array/sort.h. */
void row_ranks(void *rank, const void *terms, bool wide, int64_t n, void *scratch);

/* ---- The rule, written out and planned: once for all keys of a shape where that is enough ---- */

typedef struct merge_plans merge_plans;

merge_plans *merge_plans_new(const merge *m, kv_err *e); /* NULL: no memory */
void merge_plans_free(merge_plans *p); /* NULL is allowed */

/* The plan of a job: one that lives as long as p, or its own, which the caller releases. factors:
 * of adapters, one each, a < 0 where one lacks the key. Errors: those of merge_rule_make and
 * merge_plan_make. */
int merge_plans_get(merge_plans *p, merge_job *j, const merge_factors *factors, kv_err *e);
