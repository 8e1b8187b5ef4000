/* Going through the data of checkpoints once, in pieces, on all threads.
 *
 * A piece is at most WALK_PIECE elements of one tensor, and pieces begin at multiples of that; a
 * walk may choose another length. What
 * is computed of a piece depends on the piece alone, and results are combined in the order of
 * pieces; so results have the same bits for any number of threads.
 *
 * One walk reads from one to WALK_INPUTS_MOST checkpoints side by side: the same piece of a tensor
 * of each, that is the same elements, whatever its types are. It asks between pieces whether to end
 * early, and tells its progress.
 */
#pragma once

#include "checkpoint/tensor_reader.h"

#define WALK_PIECE       ((int64_t)1 << 17) /* elements: a whole number of runs of every type */
#define WALK_INPUTS_MOST 80                 /* of any walk */

/* A piece, handed to the worker that reads it. */
typedef struct walk_piece {
    int64_t tensor;               /* of the walk */
    int64_t number;               /* of the piece in its tensor, from 0 */
    int64_t first, n;             /* its elements */
    const void *data[WALK_INPUTS_MOST]; /* of each input, its bytes; NULL where there is none */
    /* The worker's own readers, one for each input, to read other bytes with. Data live until
     * the next call on their reader. */
    tensor_reader *const *readers;
    void *result; /* of a fold: the caller fills it; of walk.result_bytes, and not cleared */
} walk_piece;

typedef struct walk {
    checkpoint *const *inputs;
    int ninputs;
    /* For each tensor its number in each input, ninputs numbers one after the other; -1: the input
     * does not have it. Inputs that have it have the same number of elements in it. */
    const int64_t *at;
    int64_t ntensors;
    /* (optional) The most elements of a piece, for each tensor: whole runs of its types. */
    const int64_t *piece_elements;
    /* Pieces come without data: `piece` reads what it needs, at most that many bytes of an input at
     * a time. Any length of pieces is then allowed. 0: pieces come with data. */
    int64_t block_bytes;
    int most_workers; /* that run at the same time; 0: any number */
    /* Handles a piece; worker is from 0 to pool_workers() - 1 (engine/pool.h), and no two calls
     * with the same one run at the same time. Pieces come in any order, those of one tensor too,
     * unless in_order; of a tensor without elements none comes. An error ends the walk, and of
     * several the first in the order of tensors and pieces is returned. What was handed to it is
     * to be believed only when walk_run has succeeded: the file may have shrunk meanwhile. */
    int (*piece)(void *arg, const walk_piece *p, int worker, kv_err *e);
    void *arg;
    /* (optional) A fold: each piece leaves a result of so many bytes, and `end` is called once a
     * tensor with those of all its pieces in order, so that sums have the same bits whatever the
     * threads did first; at the same time for other tensors. Results are kept of the tensors that
     * miss a piece: a few at a time. */
    size_t result_bytes;
    void (*end)(void *arg, int64_t tensor, const void *results, int64_t n);
    /* The pieces of each tensor come one after the other, from the first on, to one worker. Other
     * tensors are handled meanwhile. */
    bool in_order;
    /* (optional) Told from time to time, about once in 4 MB, from one thread at a time, how many
     * bytes of the inputs have been handled, of how many. */
    void (*progress)(void *arg, int64_t done, int64_t all);
    void *progress_arg;
} walk;

/* Returns when all pieces have been handled. Its windows on the files take at most 96 MB together,
 * so many threads read from few inputs, or few from many; where `piece` reads by itself and they
 * would take more, there are buffers of block_bytes instead. Errors: those of tensor_read and of
 * piece, memory, interrupted. */
int walk_run(const walk *w, kv_err *e);
