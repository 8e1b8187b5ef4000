/* The rule of a merge, written out and planned for each key: once for all keys of a shape where
 * that is enough. */
#ifndef MERGE_MERGE_PLANS_H
#define MERGE_MERGE_PLANS_H

#include "merge/merge.h"
#include "merge/merge_adapter.h"

typedef struct merge_plans merge_plans;

int merge_plans_new(merge_plans **out, const merge *m, kv_err *e);
void merge_plans_free(merge_plans *p); /* NULL is allowed */

/* Checks the rule, whatever keys there are. Errors: those of merge_rule_make. */
int merge_plans_check(merge_plans *p, kv_err *e);

/* The plan of a key, which has the shape of `like`. *out becomes a plan that lives as long as p, or
 * `own`, which the caller releases. factors: of adapters, one each, a < 0 where one lacks the key.
 * Errors: those of merge_rule_make and merge_plan_make. */
int merge_plans_get(merge_plans *p, const merge_plan **out, merge_plan *own,
                    const tensor_info *like, bool wide, const merge_factors *factors, kv_err *e);

#endif
