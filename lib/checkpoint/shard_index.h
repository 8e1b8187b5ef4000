/* The index of a checkpoint of several files, as Hugging Face's tools write it beside them:
 *
 *   {"metadata": {"total_size": 28},
 *    "weight_map": {"fc1.weight": "model-00001-of-00002.safetensors", …}}
 *
 * weight_map says in which file each tensor is, total_size how many bytes all have together. Other
 * members are skipped: their text is not metadata of the tensors. */
#ifndef CHECKPOINT_SHARD_INDEX_H
#define CHECKPOINT_SHARD_INDEX_H

#include "checkpoint/checkpoint_build.h"

#define SHARD_INDEX_ENDING ".safetensors.index.json"

/* All zero is an empty one. */
typedef struct shard_index {
    named *tensors; /* sorted by name; i: the number of its shard */
    int64_t ntensors, cap;
    named *uses; /* the name of its shard for each tensor */
    int64_t uses_cap;
    const char **shards; /* their names, sorted */
    int64_t nshards;
    bool has_total;
    double total; /* total_size: some tools write it as 28.0 */
    arena memory;
} shard_index;

/* Reads the index at path. Names of files that would leave its folder, and names of tensors that
 * stand twice, are faults of c. Other errors: io, memory, format, interrupted. To be released after
 * a failure, too. */
int shard_index_read(shard_index *x, const checkpoint *c, const char *path, kv_err *e);

void shard_index_release(shard_index *x);

#endif
