/* The work of a store, in plain words and with small numbers: `explain push 3 b` and `explain on`.
 *
 * A command of the store tells a teller which call it is about to make, makes it, and tells that it
 * is done. Of each key one element is followed on its way through the store. `explain COMMAND` is a
 * trial: what the call changes is taken back (in a transaction of its own) or, where the type has
 * no transactions, the call is not made.
 */
#pragma once

#include "eval/eval.h"
#include "cmd/pairs.h"

/* Keys that are followed, of a call with more. */
#define EXPLAIN_KEYS 3

/* One key that is followed. */
typedef struct followed_key {
    const struct explainer *x;
    kv_key key;
    kv_array *before, *input; /* its array, and the sum that an updater gets; or NULL */
    int64_t at;               /* the element that is followed */
    buf out;                  /* the text so far, */
    int n;                    /* and in how many steps */
} followed_key;

typedef struct explainer {
    bool on;          /* a listener is there */
    bool makes_call;  /* the call is to be made: all but some trials do */
    bool begun;       /* the trial's transaction is open */
    session *s;
    kv *store;
    const char *what; /* the name of the command */
    const key_list *keys;
    const pairs *values, *outs;
    followed_key followed[EXPLAIN_KEYS];
    int n; /* of them */
} explainer;

/* Begins to tell of a call. values, outs: NULL when the call has none; all is borrowed until
 * explain_end. Nothing happens without a listener. Errors: value (a transaction is open, so a
 * trial is not possible), memory. */
int explain_begin(explainer *x, session *s, const char *what, kv *store, const key_list *keys,
                  const pairs *values, const pairs *outs, kv_err *e);

/* The call was made, or failed with e: tells what it did unless it failed, and ends a trial.
 * Returns e's code. */
int explain_end(explainer *x, kv_err *e);

/* barrier and its kind, which have no keys. Returns whether the call is to be made. */
bool explain_barrier(session *s, kv *store);

/* The stored array of a key, as a dense one. Errors: those of kv_find and kv_pull. */
int pull_stored(kv_array **out, kv *store, kv_key key, kv_err *e);

/* Appends a field of each row of a topic of kv_describe, its text or its number. Errors: memory,
 * those of kv_describe. */
int describe_field(kv *store, const char *topic, const char *field, buf *out, kv_err *e);
