/* Transactions of one store: begin, then commit or rollback.
 *
 * begin takes a reference to every stored array, which costs a few bytes a key and copies nothing.
 * A push never writes an array that has another holder (call_group_pairs): it leaves it to the
 * transaction and puts a fresh one into the slot. So a key is copied at its first change, and
 * rollback puts the references back. Keys made since are the last slots, and are dropped. As long
 * as no key is deleted or renamed, the slots themselves know the keys; before that happens the
 * transaction takes copies of them, and rollback makes the slots anew.
 */
#pragma once

#include "core/compress.h"
#include "core/slot.h"
#include "core/updater.h"

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
