/* Files of data being read and written in pieces, so that Ctrl-C ends a read that waits and a write
 * that is long. */
#ifndef FILES_STREAMS_H
#define FILES_STREAMS_H

#include <stdio.h>
#include <sys/stat.h>

#include "checkpoint/inflate.h"
#include "session/session.h"

/* ---- Reading ---- */

/* A file of data, or stdin, being read: in pieces, so that a large one needs little memory, and so
 * that Ctrl-C ends a read that waits.
 *
 * A file that changes while it is read gives half of this and half of that; datafile_close finds
 * out and says so.
 */

typedef struct datafile {
    FILE *f;          /* to read from */
    const char *name; /* for messages: the path, or stdin; borrowed */
    session *s;
    int fd;
    bool is_stdin;
    bool regular;       /* a file of a known size */
    bool interrupted;   /* a read was */
    struct stat before; /* when it was opened */
    gunzip *unpacks;    /* what is read, or NULL */
    char *ahead;        /* bytes from..to were looked at and come next */
    size_t from, to;
    int64_t done; /* bytes that were read, for the progress */
} datafile;

/* Opens path, "-" for stdin. Borrows path; d must stay where it is. On failure nothing is left to
 * close. Errors: io (missing, a folder, no permission), interrupted, memory. */
int datafile_open(datafile *d, session *s, const char *path, kv_err *e);

/* The first byte that is no blank (nor a byte order mark), without taking it; '\0' when there is
 * none within the first piece. */
char datafile_first(datafile *d);

/* Reads all of it. A NUL stands behind the text; mem_free it. Errors: io, memory. */
int datafile_text(datafile *d, char **text, size_t *n, kv_err *e);

/* Closes d. rc is what reading came to; returns it, or why it cannot count: interrupted, io (the
 * file changed meanwhile). Such an error replaces the one in e. */
int datafile_close(datafile *d, int rc, kv_err *e);

/* ---- Writing ---- */

/* A stream for writing that shows progress and ends at Ctrl-C.
 *
 * The writers of the library write to any stream. This one hands their bytes on, in pieces, to
 * another, and between the pieces looks whether the session was interrupted. */

typedef struct watch {
    FILE *f; /* to write to */
    FILE *to;
    session *s;
    int64_t done; /* bytes */
    int failed;   /* the errno of a write that failed */
    bool interrupted;
} watch;

/* Opens w->f, which hands on to `to`; w must stay where it is. path: for messages. Error: io. */
int watch_open(watch *w, session *s, FILE *to, const char *path, kv_err *e);

/* Closes w->f, not `to`. rc is what writing came to; returns it, or why it cannot count:
 * interrupted, which replaces the error in e, or io. */
int watch_close(watch *w, const char *path, int rc, kv_err *e);

#endif
