/* Checkpoints into another one: some of their keys, under other names and as other types, in one
 * pass. Nothing is held whole: a block is read, converted and written.
 *
 * A number is rounded once, to nearest even, whatever the two types are. A number that the new type
 * cannot hold is an error, not another number, where rounding does not say what it becomes: nan
 * and what is out of range into an integer, nan into F6 and F4, all but 0 and 1 into BOOL. A float
 * that is too large for a float becomes what tensor_codec.h says.
 */
#pragma once

#include "checkpoint/checkpoint_write.h"
#include "tensors/losses.h"

/* A key of the output. */
typedef struct conversion_key {
    int input;        /* where it comes from */
    int64_t at;       /* its number there */
    const char *name; /* it gets */
    tensor_type type;
} conversion_key;

typedef struct conversion {
    checkpoint *const *inputs;
    int ninputs;
    const conversion_key *keys; /* in the order of the output; those of one input stand together */
    int64_t nkeys;
    const checkpoint_text *metadata;
    int64_t nmetadata;
    losses *lost; /* (optional) one a key */
    /* (optional) Told from time to time, by one thread at a time, how many bytes of the inputs
     * have been handled, of how many. */
    void (*progress)(void *arg, int64_t done, int64_t all);
    void *progress_arg;
} conversion;

/* Errors: key (two keys have one name; both are named, with where they come from); dtype (quantised
 * and C64 data are only copied); memory. */
int conversion_check(const conversion *c, kv_err *e);

/* Writes keys that were checked to path: see checkpoint_out_open, also for o. One of the inputs may
 * stand there. Errors: those of checkpoint_out_open and of walk_run; value (a number that does not
 * fit, with its key and place; by lost->strict one that is lost). After an error path is as it
 * was. */
int conversion_run(const conversion *c, const char *path, const checkpoint_out_options *o,
                   kv_err *e);

/* The texts of an output: those of the inputs, unless drop, of one name the first; then those of
 * set, each in the place of one of its name. The caller releases *out with mem_free; the texts are
 * those of the inputs and of set. */
int conversion_metadata(checkpoint_text **out, int64_t *n, checkpoint *const *inputs, int ninputs,
                     bool drop, const checkpoint_text *set, int64_t nset, kv_err *e);
