/* `kvctl launch` of a simulated job, and the judge of what it says and returns. launch is the
 * product's code from launch_job on; its attempts run in the simulated world (process.h). */
#pragma once

#include <stddef.h>

#include "job.h"
#include "launcher_outcome.h"

/* What launch has done, in memory that all processes of a seed share. */
typedef struct launched {
    char said[8192];  /* its lines for the user */
    size_t judged;    /* bytes of them */
    int attempts;     /* of all runs of launch */
    int64_t past_ms;  /* virtual time of this launch before the attempt */
    bool all_well;    /* the ranks of the last attempt */
    int64_t said_ms;  /* when it said the first line of an attempt; -1: nothing was said */
    int64_t ended_ms; /* and when the last attempt was over */
    bool ended;       /* the process of the last attempt, by itself */
    outcome last;
} launched;

/* Runs launch of the job, and once more as a user would that has a checkpoint, until an attempt
 * ends well. attempt: makes and runs the world of one, in which `launch` is what launch does, and
 * says whether all ranks ended well. Mistakes are noted with check.h. */
void launcher_run(const job *j, const char *folder, job_past *past, launched *out,
                  bool (*attempt)(const job *j, int number, void (*launch)(void)));

/* Judges the attempt that has just run in this process. well: all its ranks ended so. */
void launcher_judge(bool well);

/* Seconds of --timeout; 0: none. */
int launcher_timeout(const job *j);
