/* The lists of a merge, written out: what is left is a rule without lists or loops. */
#ifndef VM_MERGE_LISTS_H
#define VM_MERGE_LISTS_H

#include "vm/merge.h"

/* Makes *out, a rule without lists, of a parsed merge. A list that is given a name becomes names:
 * `deltas[0]` and on. Lists that the rule is given are those of the form. Indices, conditions of
 * comprehensions and how many items are trimmed follow from literals, lengths of lists and
 * parameters: names and texts are n given ones, others have their defaults. A block that is known
 * not to run is left out. All memory is a's.
 *
 * Errors, with place: usage (a list where one value belongs, or the other way round; lists of
 * different lengths; lines that merges do not have), value (no such item; too large when written
 * out), memory. */
int merge_lists_write(rule_ast **out, const rule_ast *r, const source *s, merge_form form,
                      const char *const *names, const char *const *texts, int n, arena *a,
                      kv_err *e);

#endif
