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
 * none names, an empty weight_map, a total_size that is not the sum. Other errors: those of
 * shard_index_read and of the files; format (a folder without such files, or with several indexes).
 */
int sharded_read(checkpoint *c, const char *path, kv_err *e);
