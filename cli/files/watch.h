/* A stream for writing that shows progress and ends at Ctrl-C.
 *
 * The writers of the library write to any stream. This one hands their bytes on, in pieces, to
 * another, and between the pieces looks whether the session was interrupted. */
#ifndef FILES_WATCH_H
#define FILES_WATCH_H

#include <stdio.h>

#include "session/session.h"

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

/* Closes w->f, not `to`. code is what writing came to; returns it, or why it cannot count:
 * interrupted, which replaces the error in e, or io. */
int watch_close(watch *w, const char *path, int code, kv_err *e);

#endif
