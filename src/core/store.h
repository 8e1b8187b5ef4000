/* A store: its type's operations, its keys, its updater, its transaction. */
#pragma once

#include <pthread.h>

#include "base/mem.h"
#include "checkpoint/safetensors.h"
#include "core/call.h"
#include "core/compress.h"
#include "core/slot.h"
#include "core/updater.h"
#include "kvstore.h"

/* ---- Transactions ----
 *
 * begin takes a reference to every stored array, which costs a few bytes a key and copies nothing.
 * A push never writes an array that has another holder (call_group_pairs): it leaves it to the
 * transaction and puts a fresh one into the slot. So a key is copied at its first change, and
 * rollback puts the references back. Keys made since are the last slots, and are dropped. As long
 * as no key is deleted or renamed, the slots themselves know the keys; before that happens the
 * transaction takes copies of them, and rollback makes the slots anew. */

/* All zero: none is open. */
typedef struct transaction {
    bool is_open;
    slot *slots; /* the first nslots of the table as they were, with references to their arrays;
                    their keys are borrowed until has_keys */
    int64_t nslots;
    bool has_keys;    /* keys were deleted or renamed since, or are about to be */
    bool lost_keys;   /* of the table before that */
    uint64_t changes; /* of the store when it began */
    bool keeps_states; /* of the store when it began */
    bool has_updater; /* the updater of that time was replaced since, and is here */
    updater updater;
    compression compression;
    optimizer_mark mark; /* of the updater of that time, when it was a rule */
} transaction;

/* Opens one; none is open. Error: memory, nothing changed. */
int transaction_begin(transaction *t, const slot_table *slots, const updater *u,
                      const compression *c, uint64_t changes, kv_err *e);

/* Takes over the updater that another one has replaced, if rollback will need it. Says whether it
 * did; else the caller releases it. */
bool transaction_keep_updater(transaction *t, const updater *old);

/* Makes it ready for a key that is deleted or renamed. Does nothing when none is open. Error:
 * memory, nothing changed. */
int transaction_keep_keys(transaction *t, const slot_table *slots, kv_err *e);

/* Restores the state before the transaction, and ends it. *gone becomes the updater that the caller
 * must release when the store's lock is free. */
void transaction_rollback(transaction *t, slot_table *slots, updater *current, compression *c,
                          uint64_t *changes, updater *gone);

/* Ends it, and keeps the present state. *gone as above. */
void transaction_commit(transaction *t, updater *gone);

/* ---- The store ---- */

struct kv {
    const kv_type_ops *ops;
    void *self;       /* the type's own part */
    const char *type; /* the name it was made with; lives as long as ops, or in remarks */
    const char *base; /* the type that this is only another name of, or NULL */

    /* The type's open sets these: */
    bool compresses;       /* the type can compress gradients */
    bool compresses_pulls; /* it can compress the arrays that a server sends back, too */
    bool follows_gpus;     /* keys move to the GPU of their first value */
    bool is_server;        /* its pushes are parts of calls, which workers have clipped already */
    bool together;         /* GPUs sum and copy together: see core/call_gpu.c */
    int (*check_push)(const call *c, kv_err *e); /* NULL, or refuses groups of a push */
    bool in_slots; /* slots and updater hold all that the store keeps, so that it can be saved and
                      take part in transactions */

    /* Covers everything below, and every call of ops after open and before close. A thread that
     * holds it and asks again, which an updater or printer could make it do, gets an error. */
    pthread_mutex_t lock;
    slot_table slots;
    updater updater;
    compression compression;
    int64_t since_moved, since_whole; /* bytes of kv_pull_since, and of whole arrays in its place */
    uint64_t changes; /* see kv_changes; counted by the type's init and push */
    transaction open; /* the transaction that is open, if one is */
    arena remarks;    /* texts of a file that other tools wrote, kept for the next file */
    checkpoint_text *remark;
    int64_t nremarks, remarks_cap;
    bool foreign;     /* the store was made of another tool's file */
    bool later;       /* arrays of keys and states may still stand in its file: slot_fetch */
    bool keeps_states; /* see kv_keep_states */
    int64_t dropped;   /* see kv_states_dropped */
    bool pulled_dense; /* the pull under way found no row_sparse out, which it would ignore */
    call_pool calls;      /* the pending operations */
    direct_lists direct;
    engine_var callbacks; /* of the updater; one runs at a time */
    printed_to print;
};
