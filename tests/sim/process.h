/* The processes of a simulated job beside its ranks: launch and the watchers, which are the
 * product's code (redirect.h) in fibers of the world, and mpirun with its daemons and pipes, which
 * process.c makes up, and what goes wrong with them. launch runs on host 0. */
#pragma once

#include "job.h"

/* Begins with the processes of an attempt, before any fiber. The folders of the hosts are below
 * `folder`. begin: begins the fibers of a rank, whose launcher's folder is run_dir. all_begun: is
 * called when all ranks have begun but one that is late. */
void process_open(const job *j, int attempt, const char *folder,
                  void (*begin)(int rank, const char *run_dir), void (*all_begun)(void));

/* The fiber that calls it is launch. */
void process_is_launch(void);

/* A rank has ended by itself, with that exit code. */
void process_exit(int rank, int code);

/* A rank is killed, a watcher with its rank, or mpirun; a host is lost with all that runs there; a
 * signal comes to launch. */
void process_kill_rank(int rank);
void process_kill_watcher(int rank);
void process_kill_mpirun(void);
void process_lose_host(int host);
void process_signal_launch(int signal);

/* Returns true unless the host of the rank is cut off from that of launch now. */
bool process_reaches(int rank);

/* The name of a process of the job, on a host that launch reaches, that still runs, and its pid;
 * NULL: none does. */
const char *process_left(int *pid);

/* For a test of the tests: an exit code of a rank is 0, whatever it was. */
void process_forget_codes(void);
