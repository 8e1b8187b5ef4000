/* What a store does with the sum of a push: replaces the stored array (ASSIGN), calls a C function,
 * or runs a rule.
 *
 * A push has three phases. updater_prepare does what may fail: the host lines of the rule for every
 * key, and all memory. updater_run does the element work and cannot fail, but for a C callback that
 * refuses. updater_finish counts, delivers printed lines, and releases; only a line that cannot be
 * made fails there, and the update has happened all the same.
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

/* One push: the updater, the groups of the call, and what lies between the phases. */
typedef struct updater_push {
    updater *updater;
    call *call;
    apply_work *work;
    optimizer_draft draft;
    optimizer_step *steps; /* one a group, of a rule that is not constant */
} updater_push;

int updater_prepare(updater_push *p, updater *u, call *c, apply_work *work, kv_err *e);
int updater_run(updater_push *p, kv_err *e);
int updater_finish(updater_push *p, const printed_to *to, kv_err *e);

/* Releases what a failed updater_prepare left, or a push that is not run. */
void updater_cancel(updater_push *p);

#endif
