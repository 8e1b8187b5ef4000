/* The subcommands of jobs: kvctl launch, and kvctl serve, a rank that only keeps keys. argv begins
 * behind their names; they print their errors and return the exit code. The first `given` words of
 * launch are options of kvctl, which each worker gets. */
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H

int launch_main(int argc, char **argv, int given);
int launch_serve(int argc, char **argv);

#endif
