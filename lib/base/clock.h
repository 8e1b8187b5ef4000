/* A clock that only goes forward, for durations and deadlines. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds, and milliseconds, since a moment that stays the same while the machine runs. */
int64_t clock_ns(void);
int64_t clock_ms(void);

/* The moment `ns` nanoseconds from now, for functions that wait until a moment of a clock that they
 * are given: pthread_cond_clockwait, sem_clockwait, with CLOCK_MONOTONIC. No other function waits
 * until a moment: the clock of those may be set, which would end a wait too soon or not at all. */
struct timespec clock_after(int64_t ns);

#endif
