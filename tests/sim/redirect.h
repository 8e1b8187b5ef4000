/* Comes before each file of cli/launch that runs in the simulation (the Makefile includes it): what
 * these files ask of the system goes to process.c, whose functions say what is simulated. The
 * headers come first, so that their own declarations keep their names. */
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/jobs_socket.h"
#include "launch/launch_command.h"
#include "term/terminal.h"

#include "redirected.h"

#define close sim_close
#define fcntl sim_fcntl
#define flock sim_flock
#define fopen sim_fopen
#define fork sim_fork
#define getenv sim_getenv
#define gethostname sim_gethostname
#define getpid sim_getpid
#define getppid sim_getppid
#define kill sim_kill
#define mkdtemp sim_mkdtemp
#define pipe2 sim_pipe2
#define poll sim_poll
#define prctl sim_prctl
#define read sim_read
#define signal sim_signal
#define signalfd sim_signalfd
#define sigprocmask sim_sigprocmask
#define sigtimedwait sim_sigtimedwait
#define waitpid sim_waitpid
#define write sim_write

/* The commands of mpirun: a simulated one runs. */
#define mpirun_command sim_mpirun_command
#define mpirun_environment sim_mpirun_environment
#define mpirun_tell_command sim_mpirun_tell_command
#define terminal_say sim_say

/* Nobody attaches to a simulated job. */
#define door_open sim_door_open
#define door_look sim_door_look
#define door_close sim_door_close
#define jobs_tidy_worker(folder, number) (void)0
