/* Adding to a file of lines: its old contents are copied in front of the new ones, so that the file
 * is replaced at once, and two processes that add to one file wait for each other. */
#ifndef FILES_SAVE_ROWS_H
#define FILES_SAVE_ROWS_H

#include <stdio.h>

#include "session/session.h"

typedef struct old_file {
    FILE *f;          /* the old file; NULL: there is none, or it is empty or no file */
    const char *path; /* borrowed */
    int folder;       /* locked while it is open; -1: could not be opened */
    char last;        /* the last byte of the file */
} old_file;

/* Opens path if it is there. lock: keeps others who add to files of its folder waiting until
 * old_file_close; whoever opens several at a time locks for the first one only, since it would wait
 * for itself. Errors: io, interrupted; then there is nothing to close. */
int old_file_open(old_file *o, session *s, const char *path, bool lock, kv_err *e);

/* Checks that rows of a can be added: they are as wide as the old rows, and have the dtype that the
 * first line names. separator: of cells. Errors: shape, dtype. */
int old_file_fits(old_file *o, kv_array *a, char separator, kv_err *e);

/* Writes all of it to `to`, ending in a newline. Error: io. */
int old_file_copy(old_file *o, FILE *to, kv_err *e);

void old_file_close(old_file *o); /* one that is all zero is allowed */

#endif
