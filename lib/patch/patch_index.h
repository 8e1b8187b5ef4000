/* The keys of a patch: what it changes, and the hashes of both sides. patch_format.h describes the
 * bytes. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "patch/patch.h"
#include "patch/patch_format.h"

/* The type and the shape of a tensor. */
typedef struct patch_shape {
    tensor_type type;
    int ndim;
    const int64_t *shape;
} patch_shape;

typedef struct patch_key {
    const char *name;
    patch_state state;
    patch_shape now; /* in B, of one that is gone in A */
    patch_shape was; /* in A, unless it is new */
    unsigned char a[PATCH_HASH], b[PATCH_HASH]; /* where there is such a side */
    int64_t changes; /* units that differ */
    int64_t data;    /* the number of its data; -1: none */
} patch_key;

/* Begins zeroed. */
typedef struct patch_index {
    checkpoint_text *texts; /* of B */
    int64_t ntexts, texts_cap;
    map text_names;
    patch_key *keys; /* those of B in order, then those that are gone */
    int64_t nkeys, keys_cap;
    int64_t ndata;
    map names; /* of keys */
    arena memory;
} patch_index;

void patch_index_release(patch_index *x);

/* Adds a key; its name and shapes are copied, its data numbered. Error: memory. */
int patch_index_add(patch_index *x, const patch_key *key, kv_err *e);
int patch_index_text(patch_index *x, const char *name, const char *text, kv_err *e);

static inline bool patch_key_in_a(const patch_key *k)
{
    return k->state != PATCH_NEW;
}

static inline bool patch_key_in_b(const patch_key *k)
{
    return k->state != PATCH_GONE;
}

/* Returns true if the patch stores the whole key. */
static inline bool patch_key_is_whole(const patch_key *k)
{
    return k->state == PATCH_NEW || k->state == PATCH_REFORMED;
}

/* The key of this name, or NULL. */
const patch_key *patch_index_find(const patch_index *x, const char *name);

patch_shape patch_shape_of(const tensor_info *t);
bool patch_shape_equal(const patch_shape *x, const patch_shape *y);
int64_t patch_shape_elements(const patch_shape *x);

/* The text of an index, and its hashes, and the reverse, for a patch called `name`. Errors of the
 * reverse: format, memory. */
void patch_index_print(const patch_index *x, buf *text, buf *hashes);
int patch_index_parse(patch_index *x, const void *text, int64_t n, const void *hashes,
                      int64_t hash_bytes, const char *name, kv_err *e);

/* Counts, without the bytes. */
void patch_index_summarise(const patch_index *x, patch_summary *what);
