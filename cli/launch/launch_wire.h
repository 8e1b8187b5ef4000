/* The protocol between the watchers of ranks and launch: watchers write to stderr, and mpirun
 * brings that to its own.
 *
 * mpirun passes on pieces of at most 4096 bytes, and those of other ranks may come in between. So
 * everything is told in cells of one size, of which 8 make such a piece: a cell is never parted.
 * Open MPI 5 keeps what is no whole line until its rest comes, so a cell is a line. A rank has a
 * pipe for stderr, where it may have a terminal for stdout.
 *
 *   offset  size  a cell
 *        0     8  WIRE_MARK
 *        8     4  the rank
 *       12     2  the kind
 *       14     2  how many bytes of the text are used
 *       16   494  the text
 *      510     1  the byte that stands for a newline in what is before it; 0: there is none
 *      511     1  a newline
 *
 * Bytes between cells are messages of mpirun itself. */
#ifndef LAUNCH_LAUNCH_WIRE_H
#define LAUNCH_LAUNCH_WIRE_H

#include "base/buf.h"

#define WIRE_MARK "\1\2kvrank"
enum { WIRE_TEXT = 494 };

typedef enum wire_kind {
    WIRE_OUT = 'o',    /* a piece of what the rank wrote to stdout */
    WIRE_ERR = 'e',    /* and to stderr */
    WIRE_EVENT = 'v',  /* a line as in the file `events`, and the host behind a start */
    WIRE_LOST = 'l',   /* what the file `lost` of that host says */
    WIRE_MISSED = 'm', /* a line of the file `missed` of that host */
    WIRE_ROUNDS = 'r', /* how many rounds the worker has begun */
    WIRE_BEAT = 'b',   /* nothing but that the watcher is there; no text */
    WIRE_SSH = 's',    /* of no rank: an ssh of mpirun has ended, with this exit code */
} wire_kind;

typedef struct wire_cell {
    char mark[8];
    int32_t rank;
    int16_t kind, n;
    char text[WIRE_TEXT];
    char newline, end;
} wire_cell;

/* Writes a text in as many cells as it needs; to nobody if nobody reads. */
void wire_tell(int rank, wire_kind kind, const char *text, size_t n);

/* Takes the first cell out of the bytes that have come; what stands before it goes to log. With all
 * nothing more will come. Returns whether there was one. */
bool wire_take(buf *bytes, wire_cell *out, buf *log, bool all);

#endif
