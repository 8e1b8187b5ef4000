/* A store: its type's operations, its keys, its updater, its open transaction. */
#ifndef CORE_STORE_H
#define CORE_STORE_H

#include <pthread.h>

#include "base/mem.h"
#include "core/slot.h"
#include "core/transaction.h"
#include "core/updater.h"
#include "io/safetensors.h"
#include "kvstore.h"

struct kv {
    const kv_type_ops *ops;
    void *self;       /* the type's own part */
    const char *type; /* the name it was made with; lives as long as ops */
    bool in_slots;    /* all that the store keeps is in slots and updater, so that it can be saved
                         and take part in transactions; said by the type's open */

    /* Covers everything below, and every call of ops after open and before close. A thread that
     * holds it and asks again, which an updater or printer could make it do, gets an error. */
    pthread_mutex_t lock;
    slot_table slots;
    updater updater;
    uint64_t changes; /* see kv_changes; counted by the type's init and push */
    transaction open; /* the transaction that is open, if one is */
    arena remarks;    /* texts of a file that other tools wrote, kept for the next file */
    safetensors_pair *remark;
    int64_t nremarks;
    apply_work work; /* of the push that runs */
    call_room room;  /* of the call that runs */
    printed_to print;
};

#endif
