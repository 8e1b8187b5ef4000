/* stdout that loses nothing to signals. */
#ifndef TERM_OUTPUT_H
#define TERM_OUTPUT_H

/* Puts a stream in the place of stdout that writes on when a signal ends a write: the C library
 * drops what it could not write then. Ctrl-C, SIGTERM and the time limit drop what is left of one
 * write, without an error: interrupt_pending tells. Where there is no memory stdout stays as it is.
 */
void output_install(void);

/* Why a write to the stream failed, as errno had it, for the calls of stdio that only say that one
 * did; 0: none did. */
int output_reason(void);

#endif
