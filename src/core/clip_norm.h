/* clip_global_norm: the gradients of one call are scaled together, before any key is updated.
 *
 * With g the sum of a key's values times rescale_grad, and norm the root of the sum of g*g over
 * all keys of the call, every g becomes g * min(1, c / norm). The sums must be known before the
 * first update, so a push that clips makes them first, in arrays of their own; one that does not
 * pays nothing.
 */
#ifndef CORE_CLIP_NORM_H
#define CORE_CLIP_NORM_H

#include "core/store.h"

/* The values of a call. All zero is none. */
typedef struct clip_norm {
    kv_pairs pairs; /* the caller's, or sums that were scaled */
    kv *sums;       /* the store that holds them, or NULL */
    kv_key *keys;
    kv_array **arrays;
    int64_t ntaken; /* of arrays: references */
} clip_norm;

/* Returns true if pushes to a store clip. */
static inline bool clip_norm_wanted(const kv *store)
{
    return store->updater.optimizer && store->updater.optimizer->clip_norm > 0 && !store->is_server;
}

/* Refuses a store of several workers whose servers have the sums of some keys each: no rank knows
 * the norm of all. Error: unsupported. */
int clip_norm_check(const kv *store, kv_err *e);

/* Takes the values of a push, in the dtypes of their keys, to be summed: c->keys and c->arrays.
 * *fine: false when the push will refuse one; c holds nothing then. Errors: dtype (a key of
 * integers), memory; likewise. */
int clip_norm_take(clip_norm *c, const kv *store, const kv_pairs *values, bool *fine, kv_err *e);

/* Scales the sums, which stand in c->sums, and makes them the pairs of the call. Waits for them.
 * Error: memory. */
int clip_norm_scale(clip_norm *c, const optimizer *o, kv_err *e);

/* Releases all but the store of the sums. */
void clip_norm_release(clip_norm *c);

#endif
