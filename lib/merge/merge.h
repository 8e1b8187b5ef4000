/* Merging checkpoints into another one by a rule (vm/merge.h), in blocks: nothing is held whole.
 *
 * A key is merged by itself: the plan of its rule goes over the key's blocks once, and once more
 * for each reduction that its last pass waits for. Keys without numbers that may be averaged, of
 * integers and BOOL, must be equal in all models, and are copied. Elements are computed in float32,
 * of keys that become F64 in float64, and are rounded once, to the type that they get. A key with
 * elements that are not finite, though all that they are made of is, is merged in float64 too where
 * that makes any of them finite; those that stay are counted in `lost`.
 *
 * The bits are the same for any number of threads, and whatever files the tensors stand in.
 */
#pragma once

#include "checkpoint/checkpoint_write.h"
#include "kv_array.h"
#include "tensors/conversion.h"
#include "vm/merge.h"

/* A key of the output. */
typedef struct merge_key {
    const char *name;
    tensor_type type; /* that it gets */
} merge_key;

typedef struct merge {
    const rule_ast *rule; /* as parsed */
    const source *src;    /* of the rule */
    const char *const *names; /* nparams parameters: see rule_bind */
    const char *const *texts;
    int nparams;
    checkpoint *const *models; /* 1 to MERGE_MODELS */
    int nmodels;
    checkpoint *base;      /* or NULL */
    const double *weights; /* one a model; NULL: 1 each */
    bool keeps_first; /* keys of integers and BOOL may differ: those of the base, or of model 0 */
    /* The models are low-rank adapters: of key K.weight they hold K.lora_A.weight (r, in) and
     * K.lora_B.weight (out, r), both or none, with `base_model.model.` before the name or not. */
    bool adapters;
    const double *lora_scales; /* of adapters: alpha / r of each */
    const double *lora_ranks;  /* and r, which their tensors must have; 0: any */
    const merge_key *keys;     /* of the base, or without one of the first model */
    int64_t nkeys;
    const checkpoint_text *metadata;
    int64_t nmetadata;
    losses *lost; /* (optional) one a key */
    /* (optional) Told from time to time, by one thread at a time, how many bytes of all passes have
     * been handled, of how many. */
    void (*progress)(void *arg, int64_t done, int64_t all);
    void *progress_arg;
} merge;

/* Checks all that can be known from headers: names, shapes, types, adapters, and the rule for every
 * key. Errors: those of merge_rule_make and merge_plan_make (a rule that names a file's key says
 * which); key (a model has other names, both are told); shape; dtype (C64, quantised; another type
 * of an integer key); unsupported (a row too long for a rule that ranks rows; factors of one
 * adapter's key of more than MERGE_FACTORS_BYTES); memory. */
int merge_check(const merge *m, kv_err *e);

/* Writes what was checked to path: see checkpoint_out_open, also for o. One of the inputs may stand
 * there. Errors: those of checkpoint_out_open and of walk_run; value (integer keys that differ, the
 * first element is told; a number that does not fit its type); unsupported (the factors of all
 * adapters for a key are more than can be held). On failure what stands at path is as it was. */
int merge_run(const merge *m, const char *path, const checkpoint_out_options *o, kv_err *e);
