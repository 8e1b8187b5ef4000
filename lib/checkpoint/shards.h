/* A checkpoint cut into files as Hugging Face's tools cut it, which other tools then look for:
 *
 *   model-00001-of-00002.safetensors, model-00002-of-00002.safetensors
 *   model.safetensors.index.json       which tensor stands in which of them
 *
 * or model.safetensors alone where one file is enough. Source: the documentation of huggingface_hub
 * on serialization, and what its split_torch_state_dict_into_shards and save_torch_state_dict do:
 *
 * Tensors come in the order given. One larger than the limit gets a file of its own, at once, and
 * the file that is being filled goes on behind it; another file begins where the next tensor would
 * make the current one larger than the limit.
 *
 *   limit 10, sizes 6 6 2 11 6 2 2:   6 | 6 2 | 11 | 6 2 2   as files 1, 3, 2, 4
 */
#ifndef CHECKPOINT_SHARDS_H
#define CHECKPOINT_SHARDS_H

#include <stdint.h>

#include "base/buf.h"

#define SHARD_BYTES ((int64_t)5000000000) /* Hugging Face's default, 5GB */
#define SHARD_INDEX "model.safetensors.index.json"
#define SHARD_NAME_MAX 64

/* shard[i]: the number of the file, from 0, of tensor i of n, which has bytes[i] bytes. Returns the
 * number of files, 1 at least. */
int64_t shards_split(int64_t *shard, const int64_t *bytes, int64_t n, int64_t limit);

/* The name of file i of so many. */
void shard_name(char out[SHARD_NAME_MAX], int64_t i, int64_t nshards);

/* A tensor and its file. */
typedef struct shard_entry {
    const char *name;
    int64_t shard;
} shard_entry;

/* Appends the text of the index; sorts the entries by name. total_bytes: of all tensors. */
void shards_index(buf *out, shard_entry *entries, int64_t n, int64_t nshards, int64_t total_bytes);

#endif
