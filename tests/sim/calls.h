/* What the calls of ranks (calls.c) say of processes. */
#ifndef SIM_CALLS_H
#define SIM_CALLS_H

#include <sys/types.h>

/* The number of the process of a rank; -1: of the launcher. */
pid_t calls_pid(int rank);

#endif
