/* Somebody sets the clock: LD_PRELOAD=clock_step.so CLOCK_STEP=MS. So many milliseconds after the
 * start of the process CLOCK_REALTIME goes forth by an hour, and 20 ms later back to where it was,
 * again and again. A wait until a moment of that clock which begins within those 20 ms lasts an
 * hour: the waits are those of the C library, over the clock that is not set. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static int64_t began, after;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

__attribute__((constructor)) static void begin(void)
{
    const char *ms = getenv("CLOCK_STEP");
    after = ms ? atoll(ms) * 1000000 : INT64_MAX;
    began = now();
}

/* Seconds that the clock is ahead. */
static time_t ahead(void)
{
    int64_t t = now() - began - after;
    return t > 0 && t % 200000000 < 20000000 ? 3600 : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    static int (*next)(clockid_t, struct timespec *);
    if (!next)
        next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int rc = next(clock, t);
    if (rc == 0 && clock == CLOCK_REALTIME)
        t->tv_sec += ahead();
    return rc;
}

time_t time(time_t *t)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t)
        *t = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}
