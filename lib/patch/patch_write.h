/* Writing the file of a patch: data of keys come in any order, and are kept until all are there,
 * because only then their sizes are known; little of them in memory, more in a temporary file
 * (checkpoint/input.h). */
#ifndef PATCH_PATCH_WRITE_H
#define PATCH_PATCH_WRITE_H

#include <pthread.h>

#include "checkpoint/input.h"
#include "patch/patch_index.h"

/* A part of the data of a key. */
typedef struct patch_part {
    int64_t key, order;
    int64_t at, n; /* bytes in the spool */
} patch_part;

/* Begins with patch_spool_init. */
typedef struct patch_spool {
    pthread_mutex_t lock; /* of all that follows */
    input bytes;
    patch_part *parts;
    int64_t n, cap;
} patch_spool;

int patch_spool_init(patch_spool *s, kv_err *e);
void patch_spool_release(patch_spool *s);

/* Empties `out` to the end of the data of a key, which the caller numbers. Those of one key come
 * from one thread at a time. Errors: io, memory. */
int patch_spool_add(patch_spool *s, int64_t key, buf *out, kv_err *e);

/* Returns true if it is large and should be emptied. */
static inline bool patch_spool_wants(const buf *out)
{
    return out->len >= (size_t)256 << 10;
}

/* Writes the file: the index, and the data of its keys, which were numbered as keys are there.
 * *bytes: of the file. Errors: those of checkpoint_out_open; value (the index is too large). */
int patch_write(const char *path, const patch_index *x, patch_spool *s, const patch_options *o,
                int64_t *bytes, kv_err *e);

#endif
