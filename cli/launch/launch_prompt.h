/* launch -i: a prompt for a job. Each entry goes to all workers, `@0 ENTRY` to one.
 *
 * The job runs in a process of its own, so that it is looked after while somebody types.
 */
#ifndef LAUNCH_LAUNCH_PROMPT_H
#define LAUNCH_LAUNCH_PROMPT_H

#include "launch/launch_options.h"

/* Runs the job and the prompt. *code: the exit code of the job; without a terminal, of the first
 * entry that failed in a job that ended well. Errors: io, memory, unsupported, when it could not
 * begin. */
int launch_prompt(const launch_options *o, int *code, kv_err *e);

#endif
