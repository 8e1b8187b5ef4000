/* What launch and its watchers ask of the system in the simulation (redirect.h): each function does
 * what the one without sim_ does, for the process of the fiber that calls it. */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>

#include "launch/jobs_socket.h"
#include "launch/launch_command.h"

int sim_close(int fd);
int sim_fcntl(int fd, int cmd, ...); /* nothing */
int sim_flock(int fd, int how);      /* waits in virtual time */
FILE *sim_fopen(const char *path, const char *mode); /* also the list of a process's children */
pid_t sim_fork(void); /* launch: mpirun or the one that tells; a watcher: its rank. Never 0. */
char *sim_getenv(const char *name);
int sim_gethostname(char *name, size_t size);
pid_t sim_getpid(void);
pid_t sim_getppid(void);
int sim_kill(pid_t pid, int signal);
char *sim_mkdtemp(char *path); /* another path, in the folder of the simulation: path has room */
int sim_pipe2(int ends[2], int flags);
int sim_poll(struct pollfd *fds, nfds_t n, int ms);
int sim_prctl(int what, ...); /* nothing */
ssize_t sim_read(int fd, void *to, size_t n);
void (*sim_signal(int number, void (*run)(int)))(int); /* nothing */
int sim_signalfd(int fd, const sigset_t *mask, int flags);
int sim_sigprocmask(int how, const sigset_t *set, sigset_t *old); /* nothing */
int sim_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *time);
pid_t sim_waitpid(pid_t pid, int *status, int flags);
ssize_t sim_write(int fd, const void *from, size_t n); /* to stderr: to launch, through mpirun */

int sim_mpirun_command(launch_command *c, const launch_options *o, const launch_hosts *h,
                       kv_err *e);
/* Adds what mpirun_environment does, and gives it to the ranks. */
void sim_mpirun_environment(launch_command *set, const launch_options *o, const char *folder,
                            int64_t round);
int sim_mpirun_tell_command(launch_command *c, const launch_options *o, const launch_hosts *h,
                            const char *file, int number, const char *why, kv_err *e);

/* A line of launch for the user (launcher.c). */
__attribute__((format(printf, 1, 2))) void sim_say(const char *fmt, ...);

/* The way into a job, which nobody takes (launcher.c). */
int sim_door_open(launch_door *d, const launch_options *o, kv_err *e);
void sim_door_look(launch_door *d, struct job *j);
void sim_door_close(launch_door *d);
