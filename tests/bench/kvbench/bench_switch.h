/* The cost of a switch between threads, which jobs with more ranks than processors pay. */
#pragma once

#include "kv_err.h"

/* Nanoseconds; wake_ns and post_ns are 0 where this process has one processor. */
typedef struct bench_switch {
    double switch_ns; /* to go on with another thread, whose data the first-level cache has lost */
    double wake_ns;   /* from the post of a semaphore until another, idle processor goes on */
    double post_ns;   /* of that, what the post takes */
} bench_switch;

/* Measures it `runs` times and gives medians. Errors: memory (also of a thread). */
int bench_switch_run(bench_switch *out, int runs, bool quick, kv_err *e);
