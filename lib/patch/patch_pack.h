/* Changes of one key after the other into the chunks of a patch; patch_format.h describes them.
 *
 *     patch_pack_begin(p, unit);
 *     …                                  for each block of the key, in order:
 *     patch_pack_room(p, units, e);      its changes go behind those of p->at and p->values
 *     patch_pack_add(p, first, n, …);
 *     …
 *     patch_pack_end(p, e);              chunks stand in p->out, which the caller empties
 *
 * The chunks of a key depend only on its changes and its blocks. One thread at a time may use a
 * packer.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "base/buf.h"
#include "checkpoint/input.h"
#include "kv_err.h"
#include "patch/patch_index.h"

/* ---- zstd ------------------------------------------------------------------------------------ */

/* The state with which one thread compresses or decompresses, by the library's name. */
typedef struct ZSTD_CCtx_s zstd_packer;
typedef struct ZSTD_DCtx_s zstd_unpacker;

/* Errors: memory. */
int zstd_packer_new(zstd_packer **out, kv_err *e);
void zstd_packer_free(zstd_packer *p); /* NULL is allowed */
int zstd_unpacker_new(zstd_unpacker **out, kv_err *e);
void zstd_unpacker_free(zstd_unpacker *u); /* NULL is allowed */

/* A level: single bytes are coded by how often they are there, and long repetitions are found. */
#define ZSTD_QUICK 0

/* The most bytes that n bytes become. */
int64_t zstd_bound(int64_t n);

/* Compresses n bytes into one frame of at most `room` bytes, and returns its length; 0 where it
 * would be longer. checked: the frame ends in a checksum. */
int64_t zstd_pack(zstd_packer *p, void *to, int64_t room, const void *data, int64_t n, int level,
                  int checked);

/* Decompresses one frame of n bytes. Returns 0 unless it is whole and becomes exactly `bytes`
 * bytes. */
int zstd_unpack(zstd_unpacker *u, void *to, int64_t bytes, const void *data, int64_t n);

/* ---- Packing --------------------------------------------------------------------------------- */

/* Begins zeroed, but for zstd. */
typedef struct patch_pack {
    zstd_packer *zstd; /* the packer's own */
    int unit;
    int64_t *at;  /* of the changes that wait for their chunk: the numbers of units, ascending, */
    char *values; /* and their values: the next ones go behind the first n */
    int64_t n, cap, values_cap;
    int64_t end; /* the unit behind the last one of the chunk before */
    int64_t rest[PATCH_CHUNK]; /* of gaps of 255 and more */
    buf out;                      /* the chunks made so far */
    buf body, other, streams;     /* a chunk; two ways to pack a block; values in two ways */
    unsigned char *plane, *frame; /* bytes of a stream, and compressed */
    int64_t plane_cap, frame_cap;
} patch_pack;

void patch_pack_release(patch_pack *p);

/* Begins a key with units of so many bytes. */
void patch_pack_begin(patch_pack *p, int unit);

/* Makes room for n changes more. Error: memory. */
int patch_pack_room(patch_pack *p, int64_t n, kv_err *e);

/* n changes were put behind the others, of the block of `units` units from `first` on; at most
 * PATCH_RANGE. block: all values of it, or NULL where they are not known. Error: memory. */
int patch_pack_add(patch_pack *p, int64_t n, int64_t first, int64_t units, const void *block,
                   kv_err *e);

/* The same for a block that is stored whole. */
int patch_pack_whole(patch_pack *p, int64_t first, int64_t units, const void *block, kv_err *e);

/* The key ends: all of its chunks are in the output. Error: memory. */
int patch_pack_end(patch_pack *p, kv_err *e);

/* Writing the file of a patch: data of keys come in any order, and are kept until all are there,
 * because only then their sizes are known; little of them in memory, more in a temporary file
 * (checkpoint/input.h). */

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
