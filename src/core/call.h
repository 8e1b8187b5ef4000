/* A call of init, push or pull over many pairs (key, array): which slots it means and whether it
 * may run. Everything that can be wrong with a call is found here, before anything is written.
 */
#ifndef CORE_CALL_H
#define CORE_CALL_H

#include "core/schedule.h"
#include "core/slot.h"
#include "vm/rule.h"

/* All values pushed to one key in one call. */
typedef struct call_group {
    int64_t number;            /* of the slot */
    int64_t first, n;          /* its values: call.values[first] to [first + n - 1] */
    bool same_dtype;           /* all values have the dtype of the stored array */
    bool sparse;               /* all values are row_sparse */
    kv_array *sum;             /* NULL, or of row_sparse values their sum, in the stored dtype */
    kv_ctx ctx;                /* where the stored array will stand */
    kv_array *fresh;           /* NULL, or the array that becomes the stored one */
    kv_array *input, *result;  /* for C callbacks: the sum, and a copy of the stored array */
    const rule_update *update; /* for rules */
    int64_t t;                 /* for constant rules: the key's next count */
} call_group;

/* Memory for the lists of a call, kept by a store so that a call needs no allocation. All zero is
 * empty. */
typedef struct call_room {
    char *memory;
    int64_t bytes;
} call_room;

int call_room_reserve(call_room *r, int64_t n, int64_t bytes_each, kv_err *e);
/* After a call: gives back what is too large to keep. */
void call_room_trim(call_room *r);
void call_room_release(call_room *r);

/* The groups of a push, in the order of updates. The lists live in a call_room. */
typedef struct call {
    slot_table *table;
    int64_t old_nslots; /* where call_abort goes back to */
    call_group *groups;
    int64_t ngroups;
    int64_t max_values;      /* of any group */
    kv_array *const *values; /* by group; those of a key in the order of the call */
    const void **data;       /* the elements of each value */
    schedule_vars vars;      /* reads the values, writes the stored arrays */
} call;

enum {
    CALL_CREATE = 1,     /* a key that is not there is made by the push */
    CALL_FOLLOW_GPU = 2, /* a key kept on a cpu moves to the GPU of its first value */
    CALL_UPDATE = 4      /* the stored array is changed, not replaced by the sum: a row_sparse one
                            comes to hold all its rows */
};

/* Groups n >= 1 pairs by key. A group has a fresh array where its key is new or moves, or where the
 * stored array has another holder, who keeps it as it is, or lacks rows. Where a sum replaces the
 * stored array and one of them is row_sparse, the sum itself becomes the fresh array, later. flags:
 * of the above. Uses room until the end of the call. Errors: key (unknown, other kind), shape,
 * value (row_sparse and default values of one key), memory; nothing stays changed. */
int call_begin(call *c, slot_table *table, call_room *room, const kv_key *keys, int64_t n,
               kv_array *const *values, int flags, kv_err *e);

/* After the groups have been worked through: fresh arrays become the stored ones. Ends the call. */
void call_commit(call *c);

/* Takes back what the call added, and ends it. */
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
