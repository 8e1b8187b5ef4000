/* Writing a checkpoint by blocks: it is laid out first, then filled in any order by any number of
 * threads, then appears at once or not at all.
 *
 *     checkpoint_out *out;
 *     int rc = checkpoint_out_open(&out, path, entries, n, metadata, nmetadata, NULL, e);
 *     …                                       every byte of every tensor once:
 *     rc = checkpoint_out_put(out, i, at, data, bytes, e);
 *     …
 *     rc = checkpoint_out_commit(out, e);   or checkpoint_out_abandon(out)
 *
 *   path               written
 *   x.safetensors      one file
 *   x.kvs              the same. It has no metadata of a store, so that -s opens it as it opens
 *                      files of other tools: a store of type local whose keys are the tensors
 *   x.npz              a member a tensor
 *   x.params           what MXNet's nd.save writes
 *   x/                 a folder of shards and their index, see sharded.h
 *
 * Names stand in the order given; for the order of the data see safetensors.h. In a file of a
 * megabyte and more the data begin at a multiple of 4096 bytes, where they are written quicker.
 *
 * Files are reserved when they are laid out, so that a full disk is found before the work. What
 * stands at path stays as it is until the commit, and remains whole if that fails; whoever has it
 * open may go on reading it. See base/file.h and base/folder_out.h for links, owners and modes.
 */
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder_files.h"

typedef struct checkpoint_out checkpoint_out;

/* A tensor of the output. Names are UTF-8; none stands twice. */
typedef struct checkpoint_entry {
    const char *name;
    tensor_type type;
    int ndim;
    const int64_t *shape;
} checkpoint_entry;

typedef struct checkpoint_out_options {
    int64_t shard_bytes; /* of a folder: the most bytes of tensors in a file; 0: SHARD_BYTES */
    bool force;          /* a folder that exists is replaced, with all that it holds */
    bool keep;           /* then its files stay that are no tensors: config.json and its like */
    bool unsynced;       /* nothing waits for the disk */
    bool any_name;       /* a safetensors file, whatever the path ends in */
    folder_files
        *files; /* (optional) a folder gets copies of these; borrowed until the call ends */
} checkpoint_out_options;

/* Returns true if the path ends as one of those above. */
bool checkpoint_out_is_path(const char *path);

/* Lays out n tensors, in this order, and nmetadata texts, which every shard gets; npz has none.
 * What it is given is borrowed for the call. o: NULL means all 0.
 * Errors: usage (the ending is none of those above; a folder exists); dtype (the format has no such
 * type); value (see safetensors_header); io, memory, unsupported. On failure nothing is left. */
int checkpoint_out_open(checkpoint_out **out, const char *path, const checkpoint_entry *entries,
                        int64_t n, const checkpoint_text *metadata, int64_t nmetadata,
                        const checkpoint_out_options *o, kv_err *e);

/* Puts n bytes of tensor i from its byte `at` on. Any thread may call it at any time. Error: io;
 * then the output can only be abandoned. */
int checkpoint_out_put(checkpoint_out *out, int64_t i, int64_t at, const void *data, int64_t n,
                       kv_err *e);

/* Tensor i is put once more, every byte of it. `wait` is called first, from any thread, while some
 * of its bytes were not put yet; `again` when all of them were, and before the first new one. */
void checkpoint_out_wait(checkpoint_out *out, int64_t i);
void checkpoint_out_again(checkpoint_out *out, int64_t i);

/* Everything was put: puts the output into its place. Releases out either way. Error: io. */
int checkpoint_out_commit(checkpoint_out *out, kv_err *e);

/* Drops what was written. NULL is allowed. */
void checkpoint_out_abandon(checkpoint_out *out);
