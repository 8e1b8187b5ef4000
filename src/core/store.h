/* A store: its type's operations, its keys, its updater, its open transaction. */
#pragma once

#include <pthread.h>

#include "base/mem.h"
#include "core/call_small.h"
#include "core/compress.h"
#include "core/slot.h"
#include "core/transaction.h"
#include "core/updater.h"
#include "checkpoint/safetensors.h"
#include "kvstore.h"

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
    engine_var callbacks; /* of the updater, of which one runs at a time */
    printed_to print;
};
