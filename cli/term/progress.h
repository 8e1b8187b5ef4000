/* The progress of work that takes longer than a second: one line on stderr, drawn at most ten times
 * a second and erased at the end, `load [=====>    ] 52% of 8.5 GB  1.1 GB/s  ETA 0:04`.
 *
 * The worker calls begin, step as often as it likes, and end; where nothing is to be shown these
 * cost next to nothing. Work within work is not shown: the line is that of the outermost. Without a
 * terminal, when progress was asked for all the same, a plain line comes each ten seconds. There is
 * one line a process, so its state is global.
 */
#ifndef TERM_PROGRESS_H
#define TERM_PROGRESS_H

#include <stdint.h>

#include "base/buf.h"

typedef enum progress_unit { PROGRESS_BYTES, PROGRESS_TIMES } progress_unit;

/* what: one word, borrowed until progress_end. total: of bytes or times, 0 when it is not known. */
void progress_begin(const char *what, int64_t total, progress_unit unit);

/* So much is done, counted from the beginning. */
void progress_step(int64_t done);

/* The same in bytes, for work that tells at each step how many there are in all; begin with
 * total 0. A callback for walk_run and its like: arg is not used, and one thread at a time
 * calls. */
void progress_bytes(void *arg, int64_t done, int64_t all);

/* Each begin has one end, also when the work failed. */
void progress_end(void);

/* Erases the line before something else is written to fd, if that is a terminal too. A later step
 * draws it again. */
void progress_hide(int fd);

/* Appends the line as it is drawn into `columns` columns, what is least needed left out where there
 * is no room; 0: all of it but the bar. seconds: since the begin. */
void progress_line(buf *out, const char *what, int64_t done, int64_t total, progress_unit unit,
                   double seconds, int columns);

#endif
