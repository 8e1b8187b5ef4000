/* clip_global_norm: the gradients of one call are scaled together, before any key is updated.
 *
 * With g the sum of a key's values times rescale_grad, and norm the root of the sum of g*g over
 * all keys of the call, every g becomes g * min(1, c / norm). The sums must be known before the
 * first update, so a push that clips makes them first, in arrays of their own; one that does not
 * pays nothing.
 */
#pragma once

#include "core/store.h"

/* The values of a call. */
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

/* Makes the pairs that a push of these values has to bring: of a store that clips their sums,
 * scaled, for which it waits. Those that the push will refuse stay as they are. On an error c needs
 * no release. Errors: unsupported, dtype (a key of integers), memory. */
int clip_norm_begin(clip_norm *c, const kv *store, const kv_pairs *values, kv_err *e);

void clip_norm_end(clip_norm *c);
