/* Programs that kvctl starts. */
#ifndef TERM_CHILD_H
#define TERM_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns true if $PATH has a program of that name. */
bool child_finds(const char *program);

/* Starts sh with a line, `in` as its stdin and `out` as its stdout; -1: those of kvctl. Signals
 * that kvctl ignores have their usual meaning there; its handlers end with exec by themselves.
 * Returns an errno. */
int child_shell(pid_t *pid, const char *line, int in, int out);

/* Sends a signal to a process that was started here and has not been waited for, and to all that it
 * has started. */
void child_tell(pid_t pid, int signal);

#endif
