/* The clock by which launch waits and gives up. */
#ifndef LAUNCH_LAUNCH_CLOCK_H
#define LAUNCH_LAUNCH_CLOCK_H

#include <stdint.h>

/* Milliseconds on a clock that only goes forward. */
int64_t launch_now_ms(void);

#endif
