/* A call of push or pull over many pairs (key, array): which slots it means, whether it may run,
 * and what it is as one operation of the engine. Everything that can be wrong with a call is found
 * here, before anything is written.
 *
 * A call outlives the function that made it: what it needs is its own memory, which a store keeps
 * for the next call.
 */
#pragma once

#include "array/device.h"
#include "array/mirror.h"
#include "base/compiler.h"
#include "core/apply.h"
#include "core/slot.h"
#include "engine/trace.h"
#include "kvstore.h"
#include "vm/rule.h"

/* The work of a group. It is decided when the call is prepared: by push.c or, for a pull, when its
 * groups are made. Only call_gpu.c changes it later, to CALL_ON_GPU. */
typedef enum call_work {
    CALL_NOTHING,
    CALL_ON_GPU, /* a GPU does it or has done it: see call_gpu.c */

    /* Threads take any ranges of elements: */
    CALL_COPY,  /* the stored array goes to the outs of a pull */
    CALL_SUM,   /* the sum of the values is stored */
    CALL_CODES, /* compress.c makes the sum where it is stored */
    CALL_RULE,  /* a rule changes the stored array element by element */

    /* One thread takes all elements: */
    CALL_COPY_ROWS, /* like CALL_COPY, from a row_sparse array */
    CALL_RULE_UNIT, /* a rule with sums over elements or over rows */

    /* Alone, when all others are done; the work spreads over the threads by itself: */
    CALL_RULE_WHOLE,
    CALL_CALLBACK /* an updater in C; one runs at a time */
} call_work;

/* All values that one call pushes to one key, or arrays side by side that it pulls one key into. */
typedef struct call_group {
    int64_t number;            /* of the slot, which other calls may move: not for the operation */
    kv_key key;                /* slot_own_key; its name is the slot's */
    int64_t first, n;          /* its values: call.values[first] to [first + n - 1] */
    kv_array *target;          /* the array that a push writes and a pull reads */
    kv_array *source;          /* NULL, or the array stored before: a reference */
    const rule_update *update; /* for rules */
    int64_t t;                 /* for constant rules: the key's next count */
    int64_t use, nuses;        /* of call.uses */
    int64_t first_out, nouts;  /* of call.outs: arrays that receive the result of a push */
    int32_t parts;             /* that have not ended; atomic */
    uint8_t work;              /* a call_work */
    bool same_dtype;           /* all values have the dtype of the stored array */
    bool sparse;               /* all values are row_sparse */
    bool mixed;                /* some are */
    kv_ctx ctx;                /* where the stored array will stand */
    kv_array *sum;             /* NULL, or of row_sparse values their sum, in the stored dtype */
    kv_array *dense;           /* NULL, or of mixed values their sum, which then is the one value */
    kv_array *fresh;           /* NULL, or the array that becomes the stored one */
    kv_array *input, *result;  /* for C callbacks: the sum, and a copy of the stored array */
} call_group;

/* call_is_split: true if threads may take any range of the group's elements. The other is true if
 * they take the group in parts; one part may be all of it. */
static inline bool call_is_split(const call_group *g)
{
    return g->work >= CALL_COPY && g->work <= CALL_RULE;
}

static inline bool call_has_parts(const call_group *g)
{
    return g->work >= CALL_COPY && g->work <= CALL_RULE_UNIT;
}

/* Arrays of many keys lie all over the memory, so loops over them prefetch the arrays of a key this
 * many steps ahead, and of a key with more arrays only this many. */
enum { CALL_AHEAD = 16, CALL_AHEAD_ARRAYS = 8 };

/* Asks for both cache lines of an array's header: most loops need only the first one, conversions
 * and views the second one too. */
static inline void call_prefetch(const kv_array *a)
{
    if (!a) /* a gap between slots */
        return;
    prefetch(a);
    prefetch(&a->base);
}

/* The calls of a store: how many are pending, and memory for those to come. All zero is none. */
#define CALL_SPARES 4
typedef struct call_pool {
    engine_group group;
    struct call *spare[CALL_SPARES]; /* atomic */
} call_pool;

/* Waits for the pending operations. */
void call_pool_release(call_pool *p);

/* The begin of a part of the work: an element of a group. */
typedef struct call_cut {
    int64_t item, from;
} call_cut;

/* Memory that a part of the store keeps with a call, and the function that gives it back. */
typedef struct call_part {
    void *state;
    void (*release)(struct call *c);
} call_part;

/* The functions of a call. call_prepare and call_run run them in this order. */
typedef struct call_ops {
    const char *name; /* of the operation in a profile */

    /* Everything that can fail before the store changes. */
    int (*prepare)(struct call *c, kv_err *e);
    /* The change of the store, which cannot fail. Returns whether the call must run at once.
     * (optional, NULL means that the store does not change) */
    bool (*commit)(struct call *c);
    /* The work on elements: the operation of the engine. */
    int (*run)(struct call *c, kv_err *e);

    /* Returns true if call_small.c may take the pair of a slot and an array, after keys, shapes and
     * storage were checked. (optional, NULL means yes; so are the two that begin and end, with
     * nothing to do) */
    bool (*fits)(const kv *store, const slot *s, const kv_array *a);
    int (*begin_batches)(struct call *c, kv_err *e);
    void (*end_batches)(struct call *c);
    /* Prepares the pairs of a batch; does and commits its work. Neither can fail. */
    void (*prepare_batch)(struct call *c);
    void (*run_batch)(struct call *c);
} call_ops;

/* The groups of a push, in the order of updates, or the pairs of a pull. */
typedef struct call {
    engine_op op;
    const call_ops *ops;
    kv *store;
    call_pool *pool;
    char *memory;      /* of the lists */
    int64_t bytes;
    apply_work work;

    slot_table *table;
    const kv_pairs *pairs;   /* the caller's: not for the operation */
    const kv_pairs *results; /* NULL, or of a push that pulls as well; likewise */
    kv_array *const *ids;    /* of a pull of rows; likewise */
    bool pulls;
    int64_t old_nslots; /* where call_abort goes back to */
    call_group *groups;
    int64_t ngroups;
    int64_t max_values;      /* of any group */
    kv_array *const *values; /* by group, the values of a key in call order; or the outs */
    kv_array **list;         /* room for a list of the values */
    const void **data;       /* the elements of each value */
    kv_array **stored;       /* of a pull: the source of each out. Else room for a list of outs */
    int64_t nvalues;
    kv_array *const *outs;   /* of a push that pulls as well, by group; their uses are the first */
    int64_t nouts;
    engine_use *uses;
    int64_t work_bytes; /* of the arrays that are written */
    bool far;           /* they are too large together to stay in a cache */
    bool sparse;        /* some array of a push is row_sparse */
    bool owns;          /* some group has arrays of its own */
    bool gpus;          /* some array is on a GPU with memory of its own */
    bool together;      /* the GPUs sum and copy together: see call_gpu.c */

    call_cut *cuts; /* of the parts of the work, ncuts + 1 */
    int64_t ncuts, cuts_cap;
    bool held; /* the arrays were taken hold of */
    call_part update, compress; /* of a push */
    call_part places;           /* on GPUs, of values that come from other ones */
    struct optimizer_step *steps; /* room for the steps of an update, kept with the call */
    int64_t steps_cap;
    call_part rows;             /* of a pull into row_sparse arrays */
} call;

/* A call for these pairs. Waits where very many are pending. Error: memory. */
int call_new(call **out, kv *store, const call_ops *ops, const kv_pairs *pairs, kv_err *e);

/* Prepares the call. Errors: those of ops->prepare; then the call has ended. */
int call_prepare(call *c, kv_err *e);

/* Commits a call that was prepared and runs it as an operation: now, where it is small and nothing
 * is in its way or where its commit asks for it, else on the pool. The call ends when it has run.
 * Returns the code of ops->run, or KV_OK for one that runs later. */
int call_run(call *c, const kv_call *how, kv_err *e);

/* Makes a call that has run ready for other pairs, no more of them than it was made for; what is
 * behind c->update stays. */
void call_next(call *c, const kv_pairs *pairs);

enum {
    CALL_CREATE = 1,     /* a key that is not there is made by the push */
    CALL_FOLLOW_GPU = 2, /* a key kept on a cpu moves to the GPU of its first value */
    CALL_UPDATE = 4      /* the stored array is changed, not replaced by the sum: a row_sparse one
                            comes to hold all its rows */
};

/* The operation push of a store in this process: from the values of a call to the stored arrays.
 * Every step that can fail comes before the store changes: slots, sums of rows, the host lines of a
 * rule, memory. The work on elements comes last, and may run later.
 * Errors: those of kv_push. What can fail when everything has been updated all the same: an updater
 * in C, for its own key; a printed line. */
extern const call_ops push_ops;

/* Pulls. row_sparse arrays stay as they are. Errors: key, shape, memory. */
extern const call_ops pull_ops;

/* The row_sparse arrays of the call will hold all rows of their keys. Blocks until the operations
 * on these keys have ended. Errors: key, shape, memory. */
extern const call_ops row_pull_all_ops;

/* The i-th array will hold the rows call.ids[i] of its key, by the contract of kv_row_sparse_pull.
 * Errors: key, shape, value, dtype, index, memory. */
extern const call_ops row_pull_some_ops;

/* Groups the pairs by key. A group has a fresh array where its key is new or moves, or where the
 * stored array has another holder, who keeps it as it is, or lacks rows. Where a sum replaces the
 * stored array and one of them is row_sparse, the sum itself becomes the fresh array, later.
 * flags: of the above. Errors: key (unknown, other kind), shape, memory; nothing stays changed but
 * by call_abort. */
int call_group_pairs(call *c, int flags, kv_err *e);

/* The outs of a push: arrays that receive what it stores, in the same pass over memory. A push has
 * them where its results come in the order of updates, are default arrays, and depend on nothing
 * but their own key; otherwise a pull follows the push.
 *
 * call_expect_outs comes before the pairs are grouped; call_take_outs gives the groups their outs,
 * or drops all of them; behind call_drop_outs the push has none. */
void call_expect_outs(call *c);
void call_take_outs(call *c);
void call_drop_outs(call *c);

/* Finds the slots of the pairs of a pull, and makes their groups. row_sparse arrays are checked
 * like the others; without sparse_too their pairs then leave the call, which may have none left.
 * Errors: key, shape. */
int call_find_pairs(call *c, bool sparse_too, kv_err *e);

/* Takes the memory that call_cut_work will need for a pull of these pairs, before their keys are
 * there; call_find_pairs needs none. Error: memory. */
int call_reserve_pairs(call *c, kv_err *e);

/* Takes the memory for work that is one part. Error: memory. */
int call_reserve_batch(call *c, kv_err *e);

/* Cuts the work of the groups into parts of about equal bytes. Error: memory. */
int call_cut_work(call *c, kv_err *e);

/* Fresh arrays become the stored ones. What the operation does to them comes later. */
void call_commit(call *c);

/* Ends a call that is not run, and takes back the slots that it added. */
void call_abort(call *c);

/* Gives back a call that has run. */
void call_end(call *c);

/* Returns true if n elements of a result should be written past the caches. That does not pay in a
 * small call, nor for a few elements. */
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
static inline slot *call_slot(const call *c, const call_group *g)
{
    return &c->table->items[g->number];
}

/* The form of a call, whatever the store: keys of one kind, texts not too long, no NULL array.
 * Errors: key, value. */
int call_check_form(const kv_pairs *p, kv_err *e);

/* Of one key; first: the first key of the call. Error: key. */
int call_check_key(const kv_key *key, const kv_key *first, kv_err *e);

/* The number of a key's slot. Error: key, `key 5 was never initialised` or the other kind. */
int call_find(const slot_table *t, const kv_key *key, int64_t guess, int64_t *number, kv_err *e);

/* Checks that an array fits a slot's array (array_fits). Error: shape. */
int call_check_shape(const slot *s, const kv_array *a, const char *what, kv_err *e);

/* Checks that a slot has reached a round. Error: value. */
int call_check_round(const slot *s, int64_t round, kv_err *e);

/* ---- Small arrays (call_small.c) ----
 *
 * Calls that need no operation of the engine: pulls, and pushes and pushpulls
 * without an updater.
 *
 * To sum or to copy an array of some hundred bytes takes less time than to make an operation of it.
 * So the whole call runs on the caller's thread while it holds the engine's lock: an array that
 * nothing uses when it is checked is still unused when its turn comes, and nothing has to be
 * claimed.
 *
 * Time goes to fetching cache lines and pages, so each key is checked and worked on in one step,
 * while the header of an array and the elements behind it come in together. The elements that are
 * overwritten are kept until the call has succeeded: when a later pair has no place here, they are
 * put back, last key first. To check all keys before the first one is changed would fetch each page
 * twice, which takes nearly twice as long.
 *
 * A call with a pair that has no place here, such as a large array, one on a GPU or of another
 * dtype, or one that a scheduled operation uses, becomes an operation as a whole. So do all while a
 * profile is taken, which shows operations. */

/* The lists of a direct call, which a store keeps for the next one. All zero is empty. */
typedef struct direct_lists {
    void **data; /* the elements of the arrays of one key */
    int64_t data_cap;
    char *kept;  /* elements that the call has overwritten, as they were, in its order */
    int64_t kept_cap;
} direct_lists;

/* Runs a push of values (NULL: none), then a pull into outs (NULL: none), if the call may run this
 * way. *did says whether it did; else nothing has changed, and whatever is wrong with the call is
 * for an operation to find. The caller holds the store's lock. Error: memory, nothing changed. */
int call_direct(kv *store, const kv_pairs *values, const kv_pairs *outs, bool *did, kv_err *e);

void call_direct_release(direct_lists *lists);

/* ---- Batches ----
 *
 * A call of very many small arrays that is not a direct one runs batch by batch: each
 * batch goes the whole way of a call, from its keys to its elements, while its headers are in the
 * caches, and batches share the threads.
 *
 * All pairs are checked before the first batch runs. A call with a pair for which batches are not
 * made, such as a large array, or with an array that a scheduled operation uses, stays one
 * operation; and so does every call while a profile is taken, which shows operations.
 */

enum { BATCH_VALUES = 64 }; /* of a key, at most */

/* Runs the call in batches if it may, on this thread and those of the pool, and returns when all of
 * them have ended. in_place: the arrays of a push receive the stored elements, too. *did says
 * whether it did; else the caller makes it one operation. Error: memory, nothing changed. */
int call_in_batches(kv *store, const call_ops *ops, const kv_pairs *pairs, bool in_place, bool *did,
                    kv_err *e);

/* ---- GPUs (call_gpu.c) ----
 *
 * The groups of a call whose arrays can be worked on where they are become jobs of one list, which
 * launches all jobs of a kernel together. A device works in the order of the operations, so the
 * host does not wait for it. Values that lie elsewhere are copied to the GPU of their key; of
 * row_sparse ones only the rows that they hold.
 *
 * Host code does the other groups: a stored array on a cpu, values of several dtypes, values of
 * both storages that no rule works on, updaters in C, rules that print arrays or whose states are
 * elsewhere, codes of values that are elsewhere, sums over all elements of a row_sparse input.
 * Their arrays are copied to host memory first, and the device copies back what was written there
 * when it needs it. */

/* Returns true if the array is on a GPU with memory of its own. */
static inline bool call_is_on_gpu(const kv_array *a)
{
    return a->ctx.device == KV_GPU && mirror_has(a);
}

/* Compiles the rules of a push that will run on GPUs, and takes memory there for values that lie
 * elsewhere, before anything is changed. May wait for the store's other calls. Errors: unsupported,
 * memory. */
int call_gpu_prepare(call *c, kv_err *e);

/* Runs the groups that can run on GPUs, and makes host memory current for the rest. *all: nothing
 * is left. Errors: those of a device; memory, where there is none for the lists of a launch or for
 * the terms of a rule's sums; io, for a key that an earlier call did not write. What was to be
 * written cannot be read then, nor pulled or updated, until something else replaces it. */
int call_gpu_push(call *c, bool *all, kv_err *e);
int call_gpu_pull(call *c, bool *all, kv_err *e);

/* ---- Events of a profile ----
 *
 * A call that began when no profile was taken has op.trace NULL, and tells nothing: that is one
 * branch at each of these places. */

/* Adds the events; see below. */
void call_trace_add_enqueue(const call *c, bool later);
void call_trace_add_run(const call *c, int64_t begin);
void call_trace_add_part(const call *c, int64_t begin, const char *name, const kv_key *key,
                         const kv_array *a, int64_t from, int64_t n);

/* The operation turns out to be another one than its ops say. */
static inline void call_trace_rename(const call *c, const char *name)
{
    if (__builtin_expect(c->op.trace != NULL, 0))
        c->op.trace->name = name;
}

/* The call is about to become an operation; later: one that runs on the pool. */
static inline void call_trace_enqueue(const call *c, bool later)
{
    if (__builtin_expect(c->op.trace != NULL, 0))
        call_trace_add_enqueue(c, later);
}

/* The time at which the operation or a part of it begins, for the functions below. */
static inline int64_t call_trace_begin(const call *c)
{
    return __builtin_expect(c->op.trace != NULL, 0) ? trace_now() : 0;
}

/* The operation began at `begin` and ends now; its uses have not ended yet. */
static inline void call_trace_run(const call *c, int64_t begin)
{
    if (__builtin_expect(c->op.trace != NULL, 0))
        call_trace_add_run(c, begin);
}

/* A part of the work ends now: n elements of a, from `from` on. name: "sum". */
static inline void call_trace_part(const call *c, int64_t begin, const char *name,
                                   const kv_key *key, const kv_array *a, int64_t from, int64_t n)
{
    if (__builtin_expect(c->op.trace != NULL, 0))
        call_trace_add_part(c, begin, name, key, a, from, n);
}

/* Work on the call's keys of some GPUs, by their bits, ends now: an event for each of them. While a
 * profile is taken the host waits for it. */
void call_trace_add_devices(const call *c, int64_t begin, const char *name, const gpu_ops *gpu,
                            uint64_t devices);

static inline void call_trace_devices(const call *c, int64_t begin, const char *name,
                                      const gpu_ops *gpu, uint64_t devices)
{
    if (__builtin_expect(c->op.trace != NULL, 0))
        call_trace_add_devices(c, begin, name, gpu, devices);
}

/* An operation that is none of the engine's ends now. */
void call_trace_alone(uint64_t number, int64_t begin, const char *name, const kv_key *keys,
                      int64_t n);
