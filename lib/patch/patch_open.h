/* An open patch, for the functions that apply and join patches, and cursors over its changes. */
#pragma once

#include <string.h>

#include "base/utf8.h"
#include "checkpoint/digest.h"
#include "checkpoint/tensor_reader.h"
#include "patch/patch_index.h"
#include "patch/patch_pack.h"
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

/* ---- Chains ---------------------------------------------------------------------------------- */

/* Patches one after the other as one: what each key of the result is made of, and its blocks.
 *
 * A key of the result begins with the tensor of A, or with the last patch that holds all of it, and
 * every later patch that changes it is a layer over that. */

typedef struct patch_layer {
    int patch;
    const patch_key *key; /* there */
} patch_layer;

typedef struct patch_chain_key {
    const patch_key *key; /* in the last patch */
    bool from_a;          /* it begins with A's, else with the first layer */
    int64_t layers, n;    /* the first one, and their number */
} patch_chain_key;

/* Begins zeroed. */
typedef struct patch_chain {
    patch *const *patches;
    int n;
    patch_chain_key *keys; /* of the result, in its order */
    int64_t nkeys;
    patch_layer *layers;
    int64_t nlayers, cap;
} patch_chain;

/* The patches join; they are borrowed. Error: memory. */
int patch_chain_init(patch_chain *c, patch *const *patches, int n, kv_err *e);
void patch_chain_release(patch_chain *c);

/* The buffers with which one worker makes keys of the result. Begins zeroed. */
typedef struct patch_maker {
    const patch_chain *chain;
    patch_cursor *cursors; /* one a patch */
    digest *d;
    buf line;
    char *block;
    unsigned char *marks;
} patch_maker;

int patch_maker_init(patch_maker *m, const patch_chain *c, kv_err *e);
void patch_maker_release(patch_maker *m);

/* Begins a key of the chain. */
int patch_maker_begin(patch_maker *m, const patch_chain_key *k, kv_err *e);

/* Makes the next block of the key, `units` units from unit `first` on, of A's data (NULL where the
 * key does not begin with them), and adds it to the hash. *made: the block, which may be A's.
 * Errors: those of patch_cursor_lay. */
int patch_maker_block(patch_maker *m, const patch_chain_key *k, const void *a, int64_t first,
                      int64_t units, const void **made, kv_err *e);

/* The same for the changes alone: m->marks has a byte for each unit, 1 where m->block is known. */
int patch_maker_changes(patch_maker *m, const patch_chain_key *k, int64_t first, int64_t units,
                        kv_err *e);

/* All blocks were made. checked: compares the hash with that of the last patch. Errors: format. */
int patch_maker_end(patch_maker *m, const patch_chain_key *k, bool checked, kv_err *e);
