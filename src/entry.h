/* The begin of a public function of kvstore.h: it checks its arguments, asks what the type of the
 * store can do, and takes the store's lock. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "kvstore.h"

/* ---- Capabilities of types: the answers of kv_is_capable, and the errors of refused calls ---- */

/* The operations of a type's table, as capabilities beside KV_CAN_*. */
enum {
    CAN_INIT = 1 << 24,
    CAN_PUSH = 1 << 25,
    CAN_PULL = 1 << 26,
    CAN_PUSHPULL = 1 << 27,
    CAN_BROADCAST = 1 << 28,
    CAN_RULES = KV_CAN_UPDATER | KV_CAN_OPTIMIZER /* either will do for kv_set_rule */
};

/* ---- Arguments ---- */

/* There is a store. Error: usage. */
int args_store(const kv *store, kv_err *e);

/* The same, and its type has this capability. Errors: usage, unsupported. */
int args_can(const kv *store, uint32_t capability, kv_err *e);

/* All keys and arrays are there. keys_are, arrays_are: the names of the two arguments.
 * Errors: value (n is negative, a missing array), usage, and those of call_check_form. */
int args_pairs(const kv_pairs *p, const char *keys_are, const char *arrays_are, kv_err *e);

/* n options with a name and a value each; opts_are: the name of the argument. Errors: value, usage.
 */
int args_options(const kv_opt *opts, int n, const char *opts_are, kv_err *e);

/* The checks of a call that moves arrays, in this order, before it takes the store's lock. */
typedef struct entry {
    uint32_t flags;     /* that the call may have */
    uint32_t can;       /* what its type must be able to do: KV_CAN_* or CAN_*; 0: nothing */
    const char *arrays; /* the name of its arrays, whose keys are "keys"; those of `more` are "outs"
                           and "okeys" */
} entry;

/* more: NULL or p, or the arrays for the results of a call that has values as well.
 * Errors: value, usage, unsupported, and those of args_pairs. */
int enter(const entry *x, const kv *store, const kv_pairs *p, const kv_pairs *more,
          const kv_call *how, kv_err *e);

/* ---- The lock of a store, which every public function holds while it reads or changes it --------
 *
 * A thread that takes a lock twice waits for itself for ever. This lock reports the second attempt
 * instead, because an updater or printer may call functions of its own store. */

/* Error: memory. */
int store_lock_init(pthread_mutex_t *lock, kv_err *e);

/* Takes the lock. Error: usage (there is no store; this thread holds the lock, or runs an operation
 * of the store), busy (kv_set_patience), internal (an assertion failed before: base/kv_assert.h).
 */
int store_enter(const kv *store, kv_err *e);

/* The same for calls that walk no slots, but find those of their keys: gaps that deleted keys have
 * left may stand among them (core/slot.h). */
int store_enter_keys(const kv *store, kv_err *e);

/* The same without the lock, for what a type tells while another thread holds it. The result of
 * that then goes through kv_assert_check. */
int store_look(const kv *store, kv_err *e);

/* The same as store_enter, and waits for the operations that are pending: they must not see the
 * change. */
int store_enter_idle(kv *store, kv_err *e);

/* The same as store_enter_keys for functions that cannot return an error: they log it, with their
 * name. */
bool store_enter_or_warn(const kv *store, const char *function);

/* Calls use under the lock when nothing is pending, while the slots of the store hold all states:
 * types that keep them elsewhere bring them first (kv_type_ops). Returns its result. */
int store_visit_states(kv *store, kv_states_visit why, int (*use)(void *arg, kv_err *e), void *arg,
                       kv_err *e);

/* Gives the lock back. Returns rc, or the error internal if an assertion failed meanwhile. */
int store_leave(const kv *store, int rc, kv_err *e);
