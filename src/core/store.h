/* A store: its type's operations, its keys and its updater. */
#ifndef CORE_STORE_H
#define CORE_STORE_H

#include <pthread.h>

#include "core/slot.h"
#include "core/updater.h"
#include "kvstore.h"

struct kv {
    const kv_type_ops *ops;
    void *self;       /* the type's own part */
    const char *type; /* the name it was made with; lives as long as ops */

    /* Covers everything below, and every call of ops after open and before close. A thread that
     * holds it and asks again, which an updater or printer could make it do, gets an error. */
    pthread_mutex_t lock;
    slot_table slots;
    updater updater;
    apply_work work; /* of the push that runs */
    call_room room;  /* of the call that runs */
    void (*print)(void *arg, const char *line);
    void *print_arg;
};

#endif
