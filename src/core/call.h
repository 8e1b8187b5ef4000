/* A call of init, push or pull over many pairs (key, array): which slots it means and whether it
 * may run. Everything that can be wrong with a call is found here, before anything is written.
 */
#ifndef CORE_CALL_H
#define CORE_CALL_H

#include "core/slot.h"
#include "vm/rule.h"

/* All values pushed to one key in one call. */
typedef struct call_group {
    int64_t number;          /* of the slot */
    kv_array *const *values; /* in the order of the call */
    int64_t n;
    bool same_dtype;           /* all values have the dtype of the stored array */
    kv_array *fresh;           /* NULL, or the array that becomes the stored one */
    kv_array *input, *result;  /* for C callbacks: the sum, and a copy of the stored array */
    const rule_update *update; /* for rules */
} call_group;

/* Calls up to this many pairs need no allocation. */
enum { CALL_INLINE = 16 };

/* The groups of a push, in the order of updates. It holds pointers into itself: do not move it. */
typedef struct call {
    slot_table *table;
    call_group *groups;
    int64_t ngroups;
    int64_t max_values; /* of any group */
    int64_t old_nslots; /* where call_abort goes back to */
    kv_array **sorted;  /* the values by group, when they did not come so */
    call_group inline_groups[CALL_INLINE];
    kv_array *inline_sorted[CALL_INLINE];
} call;

/* Groups n >= 1 pairs by key: the groups in the order of updates, the values of a key in the order
 * of the call. Keys that are not there get a slot without an array when `create` is set, and an
 * array is due in group.fresh. Errors: key (unknown, other kind), shape, memory; nothing stays
 * changed. */
int call_begin(call *c, slot_table *table, const kv_key *keys, int64_t n, kv_array *const *values,
               bool create, kv_err *e);

/* After the groups have been worked through: fresh arrays become the stored ones. Releases c. */
void call_commit(call *c);

/* Takes back what the call added, and releases c. */
void call_abort(call *c);

/* The slot of a group. */
slot *call_slot(const call *c, const call_group *g);

/* The form of a call, whatever the store: keys of one kind, texts not too long, no NULL array.
 * Errors: key, value. */
int call_check_form(const kv_key *keys, int64_t n, kv_array *const *arrays, kv_err *e);

/* The number of a key's slot. Error: key, `key 5 was never initialised` or the other kind. */
int call_find(const slot_table *t, const kv_key *key, int64_t guess, int64_t *number, kv_err *e);

/* Whether an array has the shape that a slot holds. Error: shape. */
int call_check_shape(const slot *s, const kv_array *a, const char *what, kv_err *e);

#endif
