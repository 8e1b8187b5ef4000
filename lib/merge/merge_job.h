/* Merges from inside: a key while it is merged, and the worker that handles a chunk of it. */
#ifndef MERGE_MERGE_JOB_H
#define MERGE_MERGE_JOB_H

#include "merge/merge.h"
#include "merge/merge_adapter.h"
#include "merge/merge_draw.h"
#include "merge/merge_fused.h"
#include "merge/merge_select.h"
#include "tensors/walk.h"
#include "vm/plan_pass.h"

#define MERGE_INPUTS (MERGE_MODELS + 1) /* the models, then the base */

/* Elements that are read of an input at a time. */
#define MERGE_BLOCK ((int64_t)1 << 15)

/* The most memory for ranks, of all workers. */
#define MERGE_RANKS_BYTES ((int64_t)96 << 20)

typedef enum merge_job_kind {
    MERGE_JOB_RULE,
    MERGE_JOB_EQUAL, /* has no numbers to merge: must be equal everywhere, and is copied */
    MERGE_JOB_COPY   /* no adapter has it: that of the base, converted */
} merge_job_kind;

/* A key. */
typedef struct merge_job {
    int64_t key; /* of merge.keys */
    merge_job_kind kind;
    const tensor_info *like; /* of the base, or else of the first model */
    tensor_type type;        /* that it gets */
    bool wide;
    int width; /* bytes of an element in arrays: 4 or 8 */
    int64_t at[MERGE_INPUTS]; /* its number in each input, or -1 */
    int64_t piece, npieces, chunks; /* elements of a piece; how many; chunks of a piece */

    /* Of a rule. */
    const merge_plan *plan; /* one of all keys of a shape, or */
    merge_plan own;
    merge_product *product; /* by number of the adapter, of those that have the key */
    merge_draw_key *draw;
    int pass;
    bool again;        /* the pass runs once more, for its selections alone */
    uint64_t *number;  /* each in its own type, at the cell's start */
    void **cell;       /* the cells, as arrays for the programs over numbers */
    merge_select **select; /* by number: of those that are selected; NULL: others */
    bool *selected;        /* by number: it is known */
    int16_t *pass_of, *sum_of; /* by number: the pass that gives it, and which sum of it */
    double *results;   /* of each piece, its sums */
    merge_fused *fused; /* the last pass's program, if it is of that kind */
} merge_job;

/* The memory of one worker. */
typedef struct merge_worker {
    int pool_worker;
    const struct merge_room *room;
    tensor_reader *const *readers;
    const merge_job *job;
    int64_t piece_first, piece_end;
    int64_t block_first, block_n, block_most;
    const void *block[MERGE_INPUTS]; /* what was read of each input; NULL: not yet */
    int64_t first, n, chunk; /* its elements in the key; its number in the key */
    bool have_input[MERGE_INPUTS], have_draw[MERGE_MODELS], have_product[MERGE_MODELS];
    const void *input[MERGE_INPUTS];
    const merge_job *copied; /* whose numbers of which pass `copies` are */
    int copied_pass;
    char *inputs, *draws, *products; /* a buffer each */
    char *terms;   /* a buffer for each sum of all passes */
    char *merged;  /* a buffer */
    char *copies;  /* blocks of copies of each number, and of the next ones of selected numbers */
    char *ranks;   /* of a piece, for each ranking */
    char *sorting; /* for row_ranks */
    char *out;     /* a piece of the output */
    void *scratch; /* of the programs */
} merge_worker;

/* The checkpoint that tells names, shapes and types. */
checkpoint *merge_first(const merge *m);

/* What is merged from headers alone: the job of key number `key`, all but its plan and what hangs
 * from it. factors: of adapters, one each. Errors: those of merge_check. */
int merge_job_find(merge_job *j, merge_factors *factors, const merge *m, int64_t key, kv_err *e);

/* The job has its plan: sets how it is cut. Error: unsupported, a row too long for its ranks. */
int merge_job_cut(merge_job *j, kv_err *e);

/* What the workers need room for: the most of all jobs that are run together. */
typedef struct merge_room {
    int inputs, draws, products, numbers, sums;
    int64_t out_bytes, ranks_bytes, sorting_bytes, scratch_bytes;
} merge_room;

/* Grows room to what a job needs. ninputs: of the walk. */
void merge_room_add(merge_room *room, const merge_job *job, int ninputs);

/* The bytes of a worker, and its memory laid out there, aligned to MEM_ALIGN. */
int64_t merge_room_bytes(const merge_room *room);
void merge_worker_init(merge_worker *w, const merge_room *room, char *memory);

/* The elements of a row: of all axes behind the first; of a vector all. */
int64_t merge_row_of(const tensor_info *t);

/* Begins a job, a rule, for chunks of any place of it. It has no ranks. */
void merge_worker_job(merge_worker *w, const merge_job *job, tensor_reader *const *readers);

/* Begins a piece of a job, a rule. Errors: those of tensor_read. */
int merge_worker_piece(merge_worker *w, const merge_job *job, const walk_piece *p, kv_err *e);

/* Begins a chunk of the piece: n elements from `first` on, at most MERGE_CHUNK; chunk is its number
 * in the key. Chunks follow each other, or a new piece begins. */
void merge_worker_chunk(merge_worker *w, int64_t first, int64_t n, int64_t chunk);

/* Runs the elements' program of a pass on the chunk: terms of sum i are then at
 * merge_worker_terms(w, pass, i). merged: what is stored goes there; NULL: into a buffer. Errors:
 * those of tensor_read. */
int merge_worker_run(merge_worker *w, int pass, void *merged, kv_err *e);

/* The same by the job's fused program, on a number of elements that it takes. */
int merge_worker_fuse(merge_worker *w, int pass, void *merged, kv_err *e);
void *merge_worker_terms(const merge_worker *w, int pass, int sum);

/* Returns true if a pass reads ranks. */
bool merge_job_ranks(const merge_job *job, int pass);

/* Returns true if a pass stores the merged array. */
bool merge_job_stores(const merge_job *job, int pass);

#endif
