/* The messages between `kvctl attach` or `kvctl jobs`, a launcher and a rank, on a Unix socket.
 *
 *   offset  size  a message
 *        0     4  how many bytes of text follow
 *        4     4  the kind
 *
 * A launcher answers JOBS_ASK with JOBS_TOLD, lines `name value`, and JOBS_ENTER, whose text is the
 * number of a worker or "", with JOBS_DOOR: the socket of that worker comes with it, and what is
 * then said on that one is between the client and the worker. JOBS_GROW asks it to let a spare in
 * as a worker, and it answers JOBS_TOLD, whose text is the number of that one, or JOBS_REFUSED. A
 * worker that is listed itself, because its launcher is elsewhere, answers JOBS_HERE: it serves on
 * the same socket.
 *
 * To a worker the client sends JOBS_ENTRY, the text of an entry, and JOBS_STOP to give it up. The
 * worker answers with any number of JOBS_OUT, JOBS_ERR, JOBS_NOTE, JOBS_PLOT and JOBS_FILE, and
 * JOBS_DONE with the exit code as text. JOBS_ASK it answers with JOBS_TOLD, too.
 *
 * Lengths are not believed: what is longer than the reader expects ends the connection. */
#ifndef LAUNCH_JOBS_WIRE_H
#define LAUNCH_JOBS_WIRE_H

#include "base/buf.h"

typedef enum jobs_kind {
    JOBS_ASK = 'j',
    JOBS_TOLD = 'i',
    JOBS_ENTER = 'a',
    JOBS_GROW = 'g',
    JOBS_DOOR = 'f',
    JOBS_HERE = 'h',
    JOBS_REFUSED = 'r', /* a sentence */
    JOBS_ENTRY = 'c',
    JOBS_STOP = 'x',
    JOBS_OUT = 'o',
    JOBS_ERR = 'e',
    JOBS_NOTE = 'n', /* why there is no answer yet */
    JOBS_PLOT = 'p', /* attach_plot.h */
    JOBS_FILE = 'w', /* a name with its NUL, and what is to be written into that file */
    JOBS_DONE = 'd'
} jobs_kind;

enum {
    JOBS_SMALL = 64 << 10,  /* bytes of what a client sends, at most */
    JOBS_LARGE = 1 << 30 /* and of what a worker does */
};

typedef struct jobs_head {
    uint32_t bytes, kind;
} jobs_head;

/* Sends a message, with a descriptor if pass is not -1. Returns whether all of it went. A peer that
 * is gone raises no signal; one that does not read for the timeout of the socket counts as gone. */
bool jobs_send(int fd, jobs_kind kind, const void *text, size_t n, int pass);

/* The same for a text up to its NUL. */
bool jobs_say(int fd, jobs_kind kind, const char *text);

/* Waits for a message of at most `most` bytes; *text becomes its own. *passed: NULL, or becomes the
 * descriptor that came with it, or -1. Returns 1; 0 when the peer has ended the connection before
 * its first byte; -1, errno: a message that is cut or too long (EPROTO), a timeout (EAGAIN), … */
int jobs_receive(int fd, jobs_kind *kind, buf *text, size_t most, int *passed);

#endif
