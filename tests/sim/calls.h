/* Settings of the simulated system calls (calls.c). */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* The number of the process of a rank; -1: of the launcher. */
pid_t calls_pid(int rank);

/* From now on each sync and rename of a file takes about slow_ns, and the disk is full at number
 * full_at of them and from then on; -full_at: at that one alone; 0: never. */
void calls_disk(int64_t full_at, int64_t slow_ns);
