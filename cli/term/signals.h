/* Signals: Ctrl-C and SIGTERM as a flag that is asked between calls, the programs that kvctl
 * starts, which get signals of their own, and a stdout that loses nothing to signals.
 *
 * No call of the store is interrupted; what lies between calls, loads, waits and all work of the
 * library that takes long (base/stop.h) look at the flag. A second Ctrl-C within two seconds ends
 * the process at once, for whatever does not look; files are renamed into place when they are
 * whole, so none is left half-written.
 *
 * Reads and waits of the system are not restarted: they fail with EINTR, and whoever gets it looks
 * here. The handlers are those of the process, so this is global state by nature.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* ---- Ctrl-C and SIGTERM ---- */

/* Installs the handlers for SIGINT and SIGTERM and ignores SIGPIPE and SIGXFSZ, so that writing to
 * a closed pipe, or beyond a limit of the system, is an error like any other. An exec keeps what is
 * ignored, so child_shell (term/signals.h) gives its children the usual meaning of both. */
void interrupt_install(void);

/* From `seconds` on interrupt_pending says SIGALRM, and nothing clears that. Whatever waits in the
 * system is woken again and again. */
void interrupt_after(double seconds);

/* SIGINT or SIGTERM when one has come since the last clear, SIGALRM when the time is up, else 0.
 * SIGTERM wins, then SIGALRM. Any thread may ask. */
int interrupt_pending(void);

/* Forgets a Ctrl-C. A SIGTERM stays: it is an order to end. */
void interrupt_clear(void);

/* From now on SIGBUS calls mend, on the thread that touched the address: memory mapped from a file
 * that was cut meanwhile. If mend returns true, the thread goes on; else the process ends, as
 * without a handler. mend may only do what a handler may. */
void interrupt_on_fault(bool (*mend)(const void *address));

/* At the prompt Ctrl-C only drops the line, however often it is typed. */
void interrupt_at_prompt(bool at_prompt);

/* ---- Programs that kvctl starts ---- */

/* Returns true if $PATH has a program of that name. */
bool child_finds(const char *program);

/* Starts sh with a line, n bytes of text as its stdin, which it writes, and `out` as its stdout;
 * text NULL, -1: those of kvctl. Signals that kvctl ignores have their usual meaning there; its
 * handlers end with exec by themselves. A reader that ends before it has read all is not an error;
 * behind a signal no more is written where goes_on is false. *unwritten: why it cannot be written,
 * an errno, or 0. Returns an errno. */
int child_shell(pid_t *pid, const char *line, const char *text, size_t n, int out,
                bool (*goes_on)(void *arg), void *arg, int *unwritten);

/* Sends a signal to a process that was started here and has not been waited for, and to all that it
 * has started. */
void child_tell(pid_t pid, int signal);

/* ---- stdout ---- */

/* Puts a stream in the place of stdout that writes on when a signal ends a write: the C library
 * drops what it could not write then. Ctrl-C, SIGTERM and the time limit drop what is left of one
 * write, without an error: interrupt_pending tells. Where there is no memory stdout stays as it is.
 */
void output_install(void);

/* Why a write to the stream failed, as errno had it, for the calls of stdio that only say that one
 * did; 0: none did. */
int output_reason(void);
