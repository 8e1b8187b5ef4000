/* The stack that a thread has left, for functions that recurse as deep as their input: limits of
 * depth that are fine one by one multiply where one recursion runs inside another. */
#ifndef BASE_STACK_H
#define BASE_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
