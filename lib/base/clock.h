/* A clock that only goes forward, for durations and deadlines. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds, and milliseconds, since a moment that stays the same while the machine runs. */
int64_t clock_ns(void);
int64_t clock_ms(void);

#endif
