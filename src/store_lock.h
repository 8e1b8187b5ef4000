/* The lock of a store, which every public function holds while it reads or changes the store.
 *
 * A thread that takes a lock twice waits for itself for ever. This lock reports the second attempt
 * instead, because an updater or printer may call functions of its own store.
 */
#ifndef STORE_LOCK_H
#define STORE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "kvstore.h"

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

/* Gives the lock back. Returns rc, or the error internal if an assertion failed meanwhile. */
int store_leave(const kv *store, int rc, kv_err *e);

#endif
