/* Patches one after the other as one: what each key of the result is made of, and its blocks.
 *
 * A key of the result begins with the tensor of A, or with the last patch that holds all of it, and
 * every later patch that changes it is a layer over that. */
#pragma once

#include "checkpoint/digest.h"
#include "patch/patch_open.h"

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

/* Calls run for each number below n, on all threads, until one fails; of several failures the first
 * in the order of numbers is returned. worker: as that of pool_run. Errors also: interrupted. */
int patch_each(int64_t n, int (*run)(void *arg, int64_t i, int worker, kv_err *e), void *arg,
               kv_err *e);
