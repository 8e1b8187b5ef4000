/* When work must end before it is done: the user interrupts it, or its recursion is too deep.
 *
 * A function that makes an array or a text of any size asks between pieces of its work, of some
 * milliseconds at most, and returns KV_E_INTERRUPTED with nothing changed. The operations of a
 * store do not ask, since a push that has begun ends; but the wait for a key that another rank has
 * not made yet does.
 *
 * The answer is process-wide, as signals are; src/runtime.h lists it. A thread that works for
 * somebody else than the program, such as a client that looks at a job, has an answer of its own,
 * which lib/engine/pool.h hands to the threads that take parts of its work.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv_err.h"

/* Elements that are worked on between two questions. */
#define STOP_EVERY (1 << 16)

/* From now on `pending` answers: 0 means go on. Any thread may call it at any time. NULL, as at the
 * start: nothing ends early. */
void stop_ask(int (*pending)(void));

/* What a thread asks instead. No function: what the process asks. */
typedef struct stop_answer {
    int (*pending)(void *arg);
    void *arg;
} stop_answer;

/* Sets the answer of this thread, and returns the one before. */
stop_answer stop_ask_here(stop_answer a);

/* The answer of this thread. */
stop_answer stop_here(void);

/* Returns true if work shall end early: its caller then returns stop_error. */
bool stop_asked(void);

/* The same for the threads of one job: a yes stays in `*stopped`, and the others do not ask. */
static inline bool stop_shared(_Atomic bool *stopped)
{
    if (!*stopped && stop_asked())
        *stopped = true;
    return *stopped;
}

/* Sets and returns KV_E_INTERRUPTED. */
int stop_error(kv_err *e);

/* stop_error when work is to end early, else KV_OK. */
int stop_check(kv_err *e);

/* The same for round i of a loop of small rounds; asks in every 4096th. */
static inline int stop_check_at(int64_t i, kv_err *e)
{
    return i % 4096 ? KV_OK : stop_check(e);
}

/* The room left on a thread's stack, for functions that recurse as deep as their input. A limit of
 * depth for each function would not do: where one recursion runs inside another, depths multiply.
 */

/* The address that the stack of this thread, which grows downwards, is to stay above; the largest
 * of all until it is known. For stack_runs_low. */
extern _Thread_local uintptr_t stack_lowest;
bool stack_measure(void);

/* Returns true if less than half a megabyte of the thread's stack is left, or less than half of a
 * stack that is smaller than one. A recursive function then refuses to go deeper; the rest is
 * enough for all other functions. */
static inline bool stack_runs_low(void)
{
    return (uintptr_t)__builtin_frame_address(0) < stack_lowest && stack_measure();
}

/* The bytes of the stack until stack_runs_low: at least as many are behind them. SIZE_MAX on a
 * stack whose size is unknown. */
size_t stack_room(void);
