/* Whether the thread that runs the program's script waits in the library, and at which place of the
 * script. A job of several machines needs it to prove a deadlock (src/distributed/waits.h).
 *
 * One thread of the process is the script's: the one that called script_set last. Waits of other
 * threads do not count, such as those of the threads of the pool.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the place at which the script waits; false: the program can still do something while its
 * script waits. Called on another thread while the script's thread stays in its wait. */
typedef bool (*script_place)(void *arg, char *out, size_t room);

/* This thread runs the script from now on. slices: it waits in slices, and does nothing but look
 * for signals between them; else waits with a limit of time do not count. NULL: it does no more. */
void script_set(script_place place, void *arg, bool slices);

/* Around a wait until *set is not 0. */
void script_wait_begins(const int *set, bool slice);
void script_wait_ends(bool slice);

/* Returns the number of the wait, from 1, if the script's thread waits and nothing has ended its
 * wait yet; else 0. place: NULL, or becomes the place. */
uint64_t script_waits(char *place, size_t room);

/* Keeps the script's thread in its wait until script_let_go, so that another thread can read what
 * it has. False: it does not wait now, and nothing is to be let go. */
bool script_hold(void);
void script_let_go(void);

/* In the child of a fork. */
void script_after_fork(void);
