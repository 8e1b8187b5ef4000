/* Ctrl-C and SIGTERM as a flag that is asked between calls.
 *
 * No call of the store is interrupted; what lies between calls, loads, waits and all work of the
 * library that takes long (base/stop.h) look at the flag. A second Ctrl-C within two seconds ends
 * the process at once, for whatever does not look; files are renamed into place when they are
 * whole, so none is left half-written.
 *
 * Reads and waits of the system are not restarted: they fail with EINTR, and whoever gets it looks
 * here. The handlers are those of the process, so this is global state by nature.
 */
#ifndef TERM_INTERRUPT_H
#define TERM_INTERRUPT_H

#include <stdbool.h>

/* Installs the handlers for SIGINT and SIGTERM and ignores SIGPIPE and SIGXFSZ, so that writing to
 * a closed pipe, or beyond a limit of the system, is an error like any other. An exec keeps what is
 * ignored, so child_shell (term/child.h) gives its children the usual meaning of both. */
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

#endif
