/* The subcommands of jobs: kvctl launch, and kvctl serve, a rank that only keeps keys. argv begins
 * behind their names; they print their errors and return the exit code. The first `given` words of
 * launch are options of kvctl, which each worker gets. foresee: reports the first mistake that the
 * inputs of a worker show before they run, and returns the exit code for it; 0: there is none. */
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H

#include "options/options.h"

int launch_main(int argc, char **argv, int given, int (*foresee)(const options *worker));
int launch_serve(int argc, char **argv);

#endif
