/* Hashes of tensors: the same wherever a tensor stands, in files of any format or in shards. */
#ifndef TENSORS_TENSOR_HASH_H
#define TENSORS_TENSOR_HASH_H

#include "base/buf.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/digest.h"

typedef struct tensor_hash {
    unsigned char bytes[DIGEST_MAX]; /* digest_bytes(kind) of them */
} tensor_hash;

/* Hashes n tensors of a checkpoint, by their numbers in it, on all threads: hash i is that of the
 * line `BF16 [4096, 4096]`, its newline and the data, little-endian, row-major, packed. progress:
 * NULL or as walk.h says. Errors: those of digest_new and of walk_run. */
int tensor_hash_all(tensor_hash *hashes, checkpoint *c, const int64_t *numbers, int64_t n,
                    digest_kind kind, void (*progress)(void *arg, int64_t done, int64_t all),
                    void *progress_arg, kv_err *e);

/* Begins the hash of a tensor of this type and shape, for its data to follow; line: room for its
 * first line. Error: memory. */
int tensor_hash_begin(digest *d, buf *line, tensor_type type, int ndim, const int64_t *shape,
                      kv_err *e);

#endif
