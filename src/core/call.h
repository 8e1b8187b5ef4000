/* A call of push or pull over many pairs (key, array): which slots it means, whether it may run,
 * and what it is as one operation of the engine. Everything that can be wrong with a call is found
 * here, before anything is written.
 *
 * A call outlives the function that made it: what it needs is its own memory, which a store keeps
 * for the next call.
 */
#ifndef CORE_CALL_H
#define CORE_CALL_H

#include "array/device.h"
#include "core/apply.h"
#include "core/slot.h"
#include "kvstore.h"
#include "vm/rule.h"

/* How the work of a group is cut. */
typedef enum call_share {
    CALL_NOTHING, /* there is nothing to do */
    CALL_SPLIT,   /* any range of elements by itself */
    CALL_UNIT,    /* one thread does all of it */
    CALL_WHOLE,   /* alone, when all others are done; it spreads over the threads by itself */
    CALL_ON_GPU   /* a GPU does it or has done it: see call_gpu.h */
} call_share;

/* All values that one call pushes to one key, or arrays side by side that it pulls one key into. */
typedef struct call_group {
    int64_t number;            /* of the slot, which other calls may move: not for the operation */
    kv_key key;                /* slot_own_key; its name is the slot's */
    int64_t first, n;          /* its values: call.values[first] to [first + n - 1] */
    kv_array *target;          /* the array that a push writes and a pull reads */
    kv_array *source;          /* NULL, or what was stored: a reference */
    const rule_update *update; /* for rules */
    int64_t t;                 /* for constant rules: the key's next count */
    int64_t use, nuses;        /* of call.uses */
    int64_t first_out, nouts;  /* of call.outs: arrays that receive what a push has made */
    int32_t parts;             /* that have not ended; atomic */
    uint8_t share;             /* a call_share */
    bool same_dtype;           /* all values have the dtype of the stored array */
    bool sparse;               /* all values are row_sparse */
    bool mixed;                /* some are */
    kv_ctx ctx;                /* where the stored array will stand */
    kv_array *sum;             /* NULL, or of row_sparse values their sum, in the stored dtype */
    kv_array *dense;           /* NULL, or of mixed values their sum, which then is the one value */
    kv_array *fresh;           /* NULL, or the array that becomes the stored one */
    kv_array *input, *result;  /* for C callbacks: the sum, and a copy of the stored array */
} call_group;

/* Arrays of many keys lie all over the memory: loops over them ask for those that come so many
 * steps later, and of a key with more arrays only for so many. */
enum { CALL_AHEAD = 16, CALL_AHEAD_ARRAYS = 8 };

/* Asks for both cache lines of an array's header: most loops need only the first one, conversions
 * and views the second one too. */
static inline void call_prefetch(const kv_array *a)
{
    __builtin_prefetch(a);
    __builtin_prefetch(&a->base);
}

/* The calls of a store: how many are pending, and memory for those to come. All zero is none. */
#define CALL_SPARES 4
typedef struct call_pool {
    engine_group group;
    struct call *spare[CALL_SPARES]; /* atomic */
} call_pool;

/* Waits for what is pending. */
void call_pool_release(call_pool *p);

/* Where a part of the work begins: an element of a group. */
typedef struct call_cut {
    int64_t item, from;
} call_cut;

/* What a part of the store keeps with a call: its own memory, and what gives it back. */
typedef struct call_part {
    void *state;
    void (*release)(struct call *c);
} call_part;

/* The groups of a push, in the order of updates, or the pairs of a pull. */
typedef struct call {
    engine_op op;
    call_pool *pool;
    char *memory;      /* of the lists */
    int64_t bytes;
    apply_work work;

    slot_table *table;
    bool pulls;
    int64_t old_nslots; /* where call_abort goes back to */
    call_group *groups;
    int64_t ngroups;
    int64_t max_values;      /* of any group */
    kv_array *const *values; /* by group; those of a key in the order of the call; or the outs */
    kv_array **list;         /* room for a list of the values */
    const void **data;       /* the elements of each value */
    kv_array **stored;       /* of a pull: what each out receives. Else room for a list of outs */
    int64_t nvalues;
    kv_array *const *outs;   /* of a push that pulls as well, by group; their uses are the first */
    int64_t nouts;
    engine_use *uses;
    int64_t work_bytes; /* of the arrays that are written */
    bool far;           /* they are too large together to stay in a cache */
    bool sparse;        /* some array of a push is row_sparse */
    bool owns;          /* some group has arrays of its own */
    bool gpus;          /* some array is on a GPU with memory of its own */
    bool together;      /* the GPUs sum and copy together: see call_together.h */

    call_cut *cuts; /* of the parts of the work, ncuts + 1 */
    int64_t ncuts, cuts_cap;
    bool held; /* the arrays were taken hold of */
    int (*run)(struct call *c, kv_err *e);
    call_part update, compress; /* of a push */
    call_part places;           /* on GPUs, of values that come from other ones */
    struct optimizer_step *steps; /* room for those of an update, kept with the call */
    int64_t steps_cap;
    call_part rows;             /* of a pull into row_sparse arrays */
} call;

/* A call for n >= 1 pairs; it ends with call_end. Waits where very many are pending. name is the
 * operation's, and lives for ever. Error: memory. */
int call_new(call **out, call_pool *p, const char *name, slot_table *table,
             kv_array *const *values, int64_t n, kv_err *e);

/* Makes a call that has run ready for other pairs, no more of them than it was made for; what is
 * behind c->update stays. */
void call_next(call *c, kv_array *const *values, int64_t n);

enum {
    CALL_CREATE = 1,     /* a key that is not there is made by the push */
    CALL_FOLLOW_GPU = 2, /* a key kept on a cpu moves to the GPU of its first value */
    CALL_UPDATE = 4      /* the stored array is changed, not replaced by the sum: a row_sparse one
                            comes to hold all its rows */
};

/* Groups the pairs by key. A group has a fresh array where its key is new or moves, or where the
 * stored array has another holder, who keeps it as it is, or lacks rows. Where a sum replaces the
 * stored array and one of them is row_sparse, the sum itself becomes the fresh array, later.
 * flags: of the above. Errors: key (unknown, other kind), shape, memory; nothing stays changed but
 * by call_abort. */
int call_group_pairs(call *c, const kv_key *keys, int flags, kv_err *e);

/* Finds what the pairs of a pull mean, and makes their groups. Errors: key, shape. */
int call_find_pairs(call *c, const kv_key *keys, kv_err *e);

/* Takes the memory that call_cut_work will need for a pull of these pairs, before their keys are
 * there; call_find_pairs needs none. Error: memory. */
int call_reserve_pairs(call *c, kv_err *e);

/* Takes the memory for work that is one part. Error: memory. */
int call_reserve_batch(call *c, kv_err *e);

/* Cuts the work of the groups into parts of about equal bytes. Error: memory. */
int call_cut_work(call *c, kv_err *e);

/* Fresh arrays become the stored ones. What the operation does to them comes later. */
void call_commit(call *c);

/* Takes back what the call added, and ends it. */
void call_abort(call *c);

/* Runs the call as an operation: now, where it is small and nothing is in its way or where `now`
 * asks for it, else on the pool. It is ended when it has run. Returns the code of run, or KV_OK for
 * one that runs later. */
int call_run(call *c, int (*run)(call *c, kv_err *e), const kv_call *how, bool now, kv_err *e);

/* Gives a call back that is not run. */
void call_end(call *c);

/* Whether n elements of a result should go past the caches: not where the call is small, nor piece
 * by piece. */
static inline bool call_is_far(const call *c, int64_t n)
{
    return c->far && n >= 1024;
}

/* Ends the uses of groups from number first on, before the call itself ends. */
void call_end_uses(call *c, int64_t first, int64_t n);

/* The same for those of the groups from … to - 1 of which no part is left but this one. */
void call_end_groups(call *c, int64_t from, int64_t to);

/* Bytes that the pairs of a call need while they are sorted, each. */
int64_t call_bytes_a_pair(void);

/* The slot of a group, before the call runs. */
slot *call_slot(const call *c, const call_group *g);

/* The form of a call, whatever the store: keys of one kind, texts not too long, no NULL array.
 * Errors: key, value. */
int call_check_form(const kv_key *keys, int64_t n, kv_array *const *arrays, kv_err *e);

/* The number of a key's slot. Error: key, `key 5 was never initialised` or the other kind. */
int call_find(const slot_table *t, const kv_key *key, int64_t guess, int64_t *number, kv_err *e);

/* Whether an array has the shape that a slot holds. Error: shape. */
int call_check_shape(const slot *s, const kv_array *a, const char *what, kv_err *e);

#endif
