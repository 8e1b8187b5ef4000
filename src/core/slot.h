/* Slots: all that a store keeps for one key, and the table of them.
 *
 * A slot is made when its key is initialised and stays until the key is deleted or its store is
 * released; a call that fails takes back the slots that it added. Slots are numbered in the order
 * they were made. A deleted one leaves a gap, so that deleting keys one by one is linear; loops
 * over all keys touch no gaps, because slot_settle closes them before: store_enter calls it, and
 * only calls that find their keys by name do without (store_enter_keys). So a number is valid only
 * while the store's lock is held. The order of updates is another: ascending for integer keys, the
 * order of the slots for text keys.
 */
#pragma once

#include "base/map.h"
#include "kv_array.h"
#include "vm/rule.h"

/* Whose part a slot keeps, in a store that keeps parts of another store's keys: rules see that key,
 * and the host side of an update may be given with it. */
typedef struct slot_part {
    kv_key key;
    const struct rule_given *given;  /* of the next update; or NULL: the store's own */
    const struct host *numbers;      /* the states that are numbers */
} slot_part;

typedef struct slot {
    kv_key key;       /* a name is the slot's own copy */
    kv_array *stored; /* NULL only while the call that makes the slot runs. Changed in place only
                         while the slot is its one holder: see call_group_pairs */
    int64_t pushes;   /* so far */
    int64_t updates;  /* by the updater in use; its count t, so it may begin elsewhere than at 0 */
    struct slot_state *state; /* the updater's state of the key, or NULL */
    struct residuals *residuals; /* the errors of compressed pushes; NULL: none */
    const slot_part *part;       /* or NULL */
    bool told_ignored; /* a pull that ignored a row_sparse array was told to the log */
    bool loaded;       /* its key came from the file of the store (store_file.h) */
    bool gone;         /* a gap: all else is zero */
    bool marked;       /* by a delete that still checks its keys */
} slot;

/* All zero is an empty table, which takes keys of either kind. */
typedef struct slot_table {
    slot *items;
    int64_t n, cap;     /* with the gaps */
    int64_t ngone;      /* gaps; the last slot is never one */
    bool texts;         /* the kind of its keys, while it has some */
    map index;          /* key to number */
    int64_t *ascending; /* numbers by ascending integer key, of the first nascending slots */
    int64_t nascending, ascending_cap;
    bool lost_keys; /* some were deleted or renamed, so one that is not there may have been */
} slot_table;

/* The number of a key, or -1. It may well be guess, or one less: lists of keys mostly come in the
 * order of the slots, repeated or not, and a right guess needs no look into the map. Any number
 * will do. Here, so that it is inlined in the loops over the keys of a call. */
static inline int64_t slot_find(const slot_table *t, const kv_key *key, int64_t guess)
{
    for (int64_t i = guess; i >= guess - 1; i--)
        if (i >= 0 && i < t->n && map_same_key(&t->items[i].key, key) && !t->items[i].gone)
            return i;
    return map_get(&t->index, *key);
}

/* The number of keys. */
static inline int64_t slot_count(const slot_table *t)
{
    return t->n - t->ngone;
}

/* Checks that the table takes keys of this kind. Error: key. */
int slot_check_kind(const slot_table *t, const kv_key *key, kv_err *e);

/* Makes room for n more slots at once. Error: memory. */
int slot_reserve(slot_table *t, int64_t n, kv_err *e);

/* Adds a slot for a key that is not there; its number is the table's old n. Takes stored over when
 * it succeeds; NULL is allowed, see above. Error: memory, nothing changed. */
int slot_add(slot_table *t, const kv_key *key, kv_array *stored, kv_err *e);

/* Takes back the slots from number n on. */
void slot_truncate(slot_table *t, int64_t n);

/* Drops a slot with all that it keeps; the numbers of the others stay. No operation uses the
 * table's keys. Cannot fail. */
void slot_remove(slot_table *t, int64_t number);

/* Closes the gaps; the order stays. No operation is pending that knows slots by number. Cannot
 * fail. */
void slot_settle(slot_table *t);

/* Gives a slot another key of the same kind, which is not there; its number stays. No operation
 * uses the table's keys. Error: memory, nothing changed. */
int slot_rename(slot_table *t, int64_t number, const kv_key *key, kv_err *e);

/* Adds s, whose name the table takes over with all else. It had as many slots before, so there is
 * room: cannot fail. */
void slot_put_back(slot_table *t, const slot *s);

/* The number of the i-th slot in the order of updates. Error: memory. */
int slot_in_order(slot_table *t, int64_t i, int64_t *number, kv_err *e);

void slot_table_release(slot_table *t);

/* Gives back what a slot holds that is in no table. */
void slot_release(slot *s);

/* Reads what still stands in the file of the store: the array of a key, and with `states` what its
 * updater keeps. Every call that needs elements does so before it changes anything. Errors: memory,
 * io (the file was changed meanwhile), interrupted. */
int slot_fetch(slot *s, bool states, kv_err *e);

/* Drops the updater's state of a key. */
void slot_forget(slot *s);

/* The key of a slot as rules and messages name it: of a part, the key whose part it is. */
static inline const kv_key *slot_own_key(const slot *s)
{
    return s->part ? &s->part->key : &s->key;
}

/* Errors of a call: a key that it would make has a value already, a key that it needs has none yet.
 * Both return KV_E_KEY. */
int slot_refuse_inited(const kv_key *key, kv_err *e);
int slot_refuse_unknown(const kv_key *key, kv_err *e);

/* A number of the key that depends on nothing else: random numbers of its own. */
uint64_t slot_hash(const kv_key *key);

/* An error that names the key. hint: NULL, or advice. Returns code. */
int slot_error(kv_err *e, kv_code code, const kv_key *key, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* A key as messages show it, 3 or "weight"; a long text is cut. Returns out. SLOT_KEY: as an
 * argument of a message. */
#define SLOT_KEY_TEXT 96
const char *slot_key_text(char out[SLOT_KEY_TEXT], const kv_key *key);
#define SLOT_KEY(key) slot_key_text((char[SLOT_KEY_TEXT]){0}, key)

/* ---- States and residuals ----
 *
 * The memory of one key beside its value: states of an optimizer, and residuals of compressed
 * gradients. Both can be shared by reference, since arrays that have two holders are not changed in
 * place. */

typedef struct slot_state {
    kv_array *master;                  /* or NULL */
    uint32_t have;                     /* bit i: state i exists */
    kv_array *arrays[PLAN_MAX_STATES]; /* of states that are arrays or rows; else NULL */
    host numbers[PLAN_MAX_STATES];     /* of `state key` */
} slot_state;

/* Another one with the same arrays, which are then shared: a writer copies one first. NULL
 * gives NULL. Error: memory. */
int slot_state_share(slot_state **out, const slot_state *s, kv_err *e);

/* Gives everything back; NULL is allowed. */
void slot_state_free(slot_state *s);

/* The part of the gradients that their codes did not carry yet, for each position in the list of
 * values. Positions without an array have none. */
typedef struct residuals {
    kv_array **items; /* n of them, float32 in the shape of the key, where the values came from */
    int64_t n, cap;
    kv_array *sum; /* the decoded values of the last push added up, kept for its memory; or NULL */
} residuals;

/* Another one with the same arrays, which are then shared: a writer copies one first. NULL,
 * or one without items, gives NULL. Error: memory. */
int residuals_share(residuals **out, const residuals *r, kv_err *e);

/* Makes room for position `at`. *to becomes its place; without an array before, it holds NULL.
 * Error: memory. */
int residuals_place(residuals **r, int64_t at, kv_array ***to, kv_err *e);

/* Gives everything back; NULL is allowed. */
void residuals_free(residuals *r);
