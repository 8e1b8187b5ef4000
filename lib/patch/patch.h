/* Patches: files that hold what turns checkpoint A into checkpoint B, without loss.
 *
 * A patch is between named tensors, not files: A and B may be of any form that checkpoint.h reads,
 * also arrays in memory (checkpoint_of_memory). It knows the hash of every key of A and of B
 * (tensors/tensor_hash.h), so it is applied to nothing but A, and what comes out is B. Where bits
 * are the same nothing is stored, so that a patch between two steps of a fine-tuning is small.
 * Elements are compared by their bits: -0 and 0 differ, a nan equals the same nan. patch_format.h
 * describes the file.
 *
 *     int rc = patch_make("p.safetensors", a, b, NULL, &what, e);
 *     …
 *     patch *p;
 *     rc = patch_open(&p, "p.safetensors", e);
 *     rc = patch_apply("b.safetensors", &p, 1, a, NULL, NULL, &wrong, e);
 *     patch_close(p);
 *
 * A patch holds the new bits of what changed, not differences: of several patches the later one
 * wins, and a chain of patches is one pass over A.
 *
 * Data are compressed by zstd. The same A and B give the same bytes for every number of threads.
 */
#pragma once

#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_write.h"

typedef struct patch patch; /* one that is open */

/* How a function goes about its work. NULL instead of it means all 0. */
typedef struct patch_options {
    bool unsynced;   /* nothing waits for the disk */
    bool check_only; /* of applying and joining: nothing is written, but all is looked at that is
                        before that */
    /* (optional) Told from time to time, by one thread at a time, how many bytes of the inputs
     * have been handled, of how many. */
    void (*progress)(void *arg, int64_t done, int64_t all);
    void *progress_arg;
} patch_options;

/* The size of a patch, in keys and bytes. */
typedef struct patch_summary {
    int64_t same, changed, added, gone; /* changed: also keys of another dtype or shape */
    int64_t elements;                   /* of changed keys, how many differ; of those that are
                                           stored whole all. F6 and quantised types: bytes */
    int64_t bytes;                      /* of the file */
} patch_summary;

/* Writes the patch from a to b to path, which may have any name: it is complete or not there.
 * Holds of the tensors no more than some pieces at a time, whatever their size. made: NULL is
 * allowed. Errors: those of walk_run and of checkpoint_out_open; unsupported; value (the index
 * would be larger than PATCH_INDEX_MAX). */
int patch_make(const char *path, checkpoint *a, checkpoint *b, const patch_options *o,
               patch_summary *made, kv_err *e);

/* Opens a patch, and checks its index: counts, names, types, shapes. Data are checked when they are
 * read. Errors: io, memory, format (no patch, a newer version, damaged), unsupported. */
int patch_open(patch **out, const char *path, kv_err *e);
void patch_close(patch *p); /* NULL is allowed */

const char *patch_name(const patch *p);

/* A key that is not as a patch expects it, with a word that says why: "differs" (its bits),
 * "dtype", "shape", "missing" (the patch has it, the checkpoint not) or "unknown" (the reverse). */
typedef struct patch_misfit {
    const char *name, *why;
} patch_misfit;

/* Begins zeroed; the caller releases it. */
typedef struct patch_misfits {
    patch_misfit *items;
    int64_t n, cap;
    arena names;
    int64_t keys; /* of either side */
    int link;     /* patches do not join: the number of the second of the two, from 1; 0: it is the
                     checkpoint that does not fit the first patch */
    bool is_result; /* the checkpoint is what the patches make already */
} patch_misfits;

void patch_misfits_release(patch_misfits *m);
#define own_misfits OWN(patch_misfits_release) patch_misfits

/* Applies n patches, one after the other, to a, in one pass, and writes the result to path: see
 * checkpoint_out_open, also for `how` (NULL: all 0). a may stand there. The keys have the order of
 * B, and the metadata are those of B.
 *
 * Error: assert, when a is not what the first patch was made from, or the patches do not join; then
 * `wrong` lists the keys. Also usage: a is a patch itself; format: a patch
 * is damaged, what came out is not B; those of walk_run and of checkpoint_out_open. After an error
 * path is as it was. */
int patch_apply(const char *path, patch *const *patches, int n, checkpoint *a,
                const checkpoint_out_options *how, const patch_options *o, patch_misfits *wrong,
                kv_err *e);

/* Where the result of patches is. */
typedef enum patch_place {
    PATCH_IN_PLACE, /* in the file itself, or a clone of it; no other page was written */
    PATCH_BESIDE,   /* written beside, and renamed to its place */
    PATCH_ALREADY   /* the checkpoint was what the patches make; nothing was written */
} patch_place;

/* The same into the place of the checkpoint at path. Where it is one safetensors file whose header
 * stays as it is, the bytes that differ are written into it, behind a journal
 * (checkpoint/in_place.h): every other reader of ours finds A or B, whenever this process ends. Any
 * other is written beside and renamed, and so is a file of a megabyte and more that has no other
 * name, where journal and pages would take more bytes than the file and the disk has room for both;
 * of a folder the files stay that hold no tensors.
 * shard_bytes: of a folder, 0: SHARD_BYTES.
 * Errors: those above; value (a file of a store, whose states would not fit any more; a path of a
 * folder's index); busy (another process reads or changes the file); those of in_place.h. */
int patch_apply_in_place(const char *path, patch *const *patches, int n, int64_t shard_bytes,
                         const patch_options *o, patch_place *place, patch_misfits *wrong,
                         kv_err *e);

/* Joins n >= 1 patches, each made from the result of the one before it, into one
 * at path. Errors: assert (they do not join: see `wrong`); format; those of checkpoint_out_open. */
int patch_join(const char *path, patch *const *patches, int n, const patch_options *o,
               patch_summary *made, patch_misfits *wrong, kv_err *e);
