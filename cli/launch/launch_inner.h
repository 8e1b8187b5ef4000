/* The launch inside of a job that a queue or Kubernetes starts. */
#ifndef LAUNCH_LAUNCH_INNER_H
#define LAUNCH_LAUNCH_INNER_H

#include "launch/launch_command.h"
#include "launch/launch_options.h"

/* Adds the options of this launch that the one in the job gets too, and the words of the ranks;
 * before them stand `kvctl launch` and the launcher. Error: memory. */
int inner_options(launch_command *c, const launch_options *o, kv_err *e);

#endif
