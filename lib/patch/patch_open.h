/* An open patch, for the functions that apply and join patches, and cursors over its changes. */
#pragma once

#include <string.h>

#include "base/utf8.h"
#include "checkpoint/tensor_reader.h"
#include "patch/patch_index.h"
#include "patch/patch_zstd.h"
#include "tensors/tensor_hash.h"

/* Names in messages: the first 80 bytes. */
#define PATCH_SHOWN(name) (int)utf8_cut((name), strlen(name), 80), (name)

struct patch {
    checkpoint *file;
    patch_index index;
    int64_t *data; /* of each key with data: the number of its tensor in the file */
};

/* Checks that each patch is made from what the one before it makes. Error: assert, see `wrong`. */
int patch_check_links(patch *const *patches, int n, patch_misfits *wrong, kv_err *e);

/* Compares a checkpoint, whose hashes are given in the order of its tensors (NULL: only
 * names, types and shapes), with what a patch is made from or with what it makes, and lists the
 * keys that are not so. Error: memory. */
int patch_compare(patch_misfits *wrong, const patch *p, bool result, const checkpoint *c,
                  const tensor_hash *hashes, kv_err *e);

/* The changes of one key of a patch, in the order of their places: laid over blocks of the key that
 * are asked for in order. Every number that the patch gives is checked before it is used. */

/* Begins zeroed, except for p. One thread at a time uses a cursor. */
typedef struct patch_cursor {
    const patch *p;
    bool frugal; /* no part of the file stays mapped between chunks: for long chains */
    tensor_reader *r;
    zstd_unpacker *zstd;
    const patch_key *key;
    int64_t tensor, at, bytes; /* of its data: its number, what was read, all of it */
    int64_t unit, units;       /* of the key */
    int64_t found;             /* units in the chunks so far */
    /* The chunk: */
    int64_t n, next;  /* its units, and the first that was not laid over */
    int64_t place;    /* of that */
    int64_t end;      /* the unit behind the last one that was laid over */
    bool range;       /* its units follow each other */
    bool together;    /* its values stand as they are, else byte by byte */
    int64_t gap;      /* the bytes of a gap, or PATCH_SHORT */
    int64_t rest, nrest, used; /* then the bytes of what is added, how many there are, and used */
    unsigned char *gaps, *values; /* gap planes of n - 1, then those of nrest; value planes of n */
    int64_t gaps_cap, values_cap;
} patch_cursor;

void patch_cursor_release(patch_cursor *c);

/* Begins a key of the patch, which has data. Errors: format, memory, io. */
int patch_cursor_begin(patch_cursor *c, const patch_key *k, kv_err *e);

/* Puts what changes of n units from unit `first` on into their block. Blocks follow each other from
 * the first unit on. marks (optional): a byte for each, which becomes 1 where it was put. Errors:
 * format (a chunk that is damaged), io, memory, unsupported. */
int patch_cursor_lay(patch_cursor *c, void *block, unsigned char *marks, int64_t first, int64_t n,
                     kv_err *e);

/* All blocks were asked for. Error: format (chunks are left, or fewer units than the index says
 * were in them). */
int patch_cursor_end(patch_cursor *c, kv_err *e);
