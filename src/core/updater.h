/* What a store does with the sum of a push: replaces the stored array (ASSIGN), calls a C function,
 * or runs a rule.
 *
 * A push has three phases. updater_prepare does what may fail: the host lines of the rule for every
 * key, and all memory. updater_commit makes it happen as far as the store is concerned. updater_run
 * is the operation, which may run later, when the slots are others' again: it works on arrays that
 * the groups of the call name.
 */
#ifndef CORE_UPDATER_H
#define CORE_UPDATER_H

#include "core/apply.h"
#include "core/call.h"
#include "core/optimizer.h"

typedef enum updater_kind { UPDATER_ASSIGN, UPDATER_CALLBACK, UPDATER_RULE } updater_kind;

/* All zero is ASSIGN. */
typedef struct updater {
    updater_kind kind;
    kv_updater call; /* UPDATER_CALLBACK */
    void *arg;
    void (*done)(void *arg);
    optimizer *optimizer; /* UPDATER_RULE */
} updater;

/* Makes *u run a rule. Errors: those of kv_set_rule; *u is not changed then. */
int updater_init_rule(updater *u, const kv_rule *rule, const kv_opt *params, int nparams,
                      kv_err *e);

void updater_release(updater *u);

/* How a description names it: "assign", "callback", a rule's name, "rule". Borrowed from u. */
const char *updater_name(const updater *u);

/* Prepares what the groups of a push need. Where an array is needed at once, as for the rows of a
 * row_sparse sum, waits for it. Errors: those of kv_push. */
int updater_prepare(updater *u, call *c, engine_var *callbacks, kv_err *e);

/* Makes the push happen, as far as the store is concerned: slots get their new arrays, counts and
 * states, whose elements the operation fills. Cannot fail. to: who gets printed lines; lives as
 * long as the operation. Returns whether there are any: then the operation must run now. */
bool updater_commit(call *c, const printed_to *to);

/* The operation. What can fail, when everything has been updated all the same: a C callback, for
 * its own key; a printed line. */
int updater_run(call *c, kv_err *e);

/* What is left of it where GPUs have done the work of all groups (call_gpu.h). */
int updater_end(const call *c, kv_err *e);

/* The arrays that a rule works on for a group, beside its values. */
typedef struct updater_arrays {
    kv_array *held; /* what the rule changes: the float32 master, or the target itself */
    kv_array *items[PLAN_MAX_STATES];
    int number[PLAN_MAX_STATES]; /* which state each of them is */
    int n;
    bool prints;      /* it prints arrays, which lie in host memory */
    plan_arrays plan; /* the same for the host */
} updater_arrays;

/* Those of a group of a push that was committed; false where no rule does any work. */
bool updater_rule_arrays(const call *c, const call_group *g, updater_arrays *out);

/* ---- A push in batches (core/call_batch.h) ---- */

/* Whether the next update of a key is known and keeps nothing of the key but its count, so that
 * nothing can fail. */
bool updater_is_plain(const updater *u, const slot *s);

/* What a call needs to run batches with groups of up to max_values values. Error: memory. */
int updater_begin_batches(const updater *u, call *c, int64_t max_values, kv_err *e);

/* Prepares and commits the groups of a batch, and does their work. Other calls may run other
 * batches meanwhile. */
void updater_run_batch(call *c);

/* What a call's batches have advanced becomes the updater's. */
void updater_end_batches(const updater *u, const call *c);

#endif
