/* The clock of launch. */
#include "launch/launch_clock.h"

#include <time.h>

int64_t launch_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
