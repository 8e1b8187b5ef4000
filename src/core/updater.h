/* The updater of a store applies the sum of a push. It replaces the stored array (ASSIGN),
 * goes to a C function, or a rule updates the stored array with it.
 *
 * Here is the part of a push that is not about elements: the host lines of a rule, arrays that the
 * updater needs, counts and states. push.c has the elements.
 */
#pragma once

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
#define own_updater OWN(updater_release) updater

/* Its name in descriptions: "assign", "callback", a rule's name, "rule". Borrowed from u. */
const char *updater_name(const updater *u);

/* The memory of the updater in a push, behind call.update; NULL for ASSIGN. */
typedef struct updater_part {
    updater updater; /* as it was when the push was prepared */
    optimizer_draft draft;
    optimizer_step *steps; /* one a group of a rule; NULL in batches */
    int64_t nsteps;        /* prepared so far */
    const printed_to *to;  /* the receiver of the lines that the steps print; NULL: none */
} updater_part;

/* The step of a group, or NULL. */
static inline const optimizer_step *updater_step(const call *c, const call_group *g)
{
    const updater_part *p = c->update.state;
    return p && p->steps ? &p->steps[g - c->groups] : NULL;
}

enum { UPDATER_AHEAD_STATES = 2 }; /* of a key, that are prefetched: few optimizers have more */

/* Runs the host lines of a rule for each group and takes all memory that the updater needs. Errors:
 * those of kv_push. */
int updater_prepare(call *c, kv_err *e);

/* Slots get their counts and new states, whose elements the operation fills. Cannot fail. Returns
 * whether lines are to be printed: then the operation must run at once. */
bool updater_commit(call *c);

/* Prints the lines of all groups, behind the operation. Error: that of a printer. */
int updater_print(const call *c, kv_err *e);

/* The arrays that a rule works on for a group, in host memory; *a is all zero before. */
void updater_plan_arrays(const call *c, const call_group *g, plan_arrays *a);

/* The arrays that a rule works on for a group, beside its values. */
typedef struct updater_arrays {
    kv_array *held; /* the array that the rule changes: the float32 master, or the target itself */
    kv_array *items[PLAN_MAX_STATES];
    int number[PLAN_MAX_STATES]; /* which state each of them is */
    int n;
    bool prints; /* it prints arrays, which lie in host memory */
} updater_arrays;

/* Fills in the arrays of a group of a push that was committed; false where no rule
 * does any work. */
bool updater_rule_arrays(const call *c, const call_group *g, updater_arrays *out);

/* ---- A push in batches (core/call_small.c) ---- */

/* Returns true if the next update of a key is known and keeps no state of the key but its count,
 * so that it cannot fail. */
bool updater_is_plain(const updater *u, const slot *s);

/* Takes the memory for batches with groups of up to max_values values. Error: memory. */
int updater_begin_batches(call *c, int64_t max_values, kv_err *e);

/* Prepares and commits the groups of a batch. Other calls may do so with
 * other batches meanwhile. */
void updater_commit_batch(call *c);

/* The counts that a call's batches have advanced become the updater's. */
void updater_end_batches(call *c);
