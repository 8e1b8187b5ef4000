/* A checkpoint of several safetensors files: the shards that an index names, or all that a folder
 * has. They are read in the order of their names. A folder without any may have a model of PyTorch,
 * pytorch_model.bin or the shards of its index. */
#pragma once

#include "checkpoint/checkpoint_build.h"

/* Says whether path is a folder, or an index by its ending. */
bool sharded_named(const char *path);

/* Reads the index at path; of a folder its one index, or else all its *.safetensors. Of a tensor in
 * several shards the one counts that the index names. Faults: a shard that is not there, a tensor
 * that the index and the shards disagree on; in findings each is one, an error names all that it
 * has room for. Only findings: a tensor in another shard too, a *.safetensors beside the index that
 * none names, an empty weight_map, a total_size that is not the sum. Other errors: io,
 * memory, interrupted, those of the files; format (a folder without such files, or with several
 * indexes). */
int sharded_read(checkpoint *c, const char *path, kv_err *e);

/* ---- Indexes --------------------------------------------------------------------------------- */

/* The index of a checkpoint of several files, as Hugging Face's tools write it beside them:
 *
 *   {"metadata": {"total_size": 28},
 *    "weight_map": {"fc1.weight": "model-00001-of-00002.safetensors", …}}
 *
 * weight_map says in which file each tensor is, total_size how many bytes all have together. Other
 * members are skipped: their text is not metadata of the tensors. */

#define SHARD_INDEX_ENDING ".safetensors.index.json"

/* ---- Cutting --------------------------------------------------------------------------------- */

/* A checkpoint is cut into files as Hugging Face's tools cut it, which other tools then look for:
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
#define SHARD_BYTES ((int64_t)5000000000) /* Hugging Face's default, 5GB */
#define SHARD_INDEX "model.safetensors.index.json"
#define SHARD_NAME_MAX 64

/* shard[i]: the number of the file, from 0, of tensor i of n, which has bytes[i] bytes. Returns the
 * number of files, 1 at least. */
int64_t shards_split(int64_t *shard, const int64_t *bytes, int64_t n, int64_t limit);

/* The name of file i of so many. */
void shard_name(char out[SHARD_NAME_MAX], int64_t i, int64_t nshards);

/* Appends the text of the index of tensors (i: the file of each), sorted by name here. total_bytes:
 * of all tensors. */
void shards_index(buf *out, named *entries, int64_t n, int64_t nshards, int64_t total_bytes);
