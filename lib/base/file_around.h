/* Writing large files around the page cache of the system. The cache would take fresh memory and a
 * copy for each page, which costs several times as much processor time as the disk needs, and keep
 * a file that nobody is about to read. Where the file system cannot do that, writes go through the
 * cache as usual.
 */
#ifndef BASE_FILE_AROUND_H
#define BASE_FILE_AROUND_H

#include <stdio.h>

#include "kv_err.h"

/* *out becomes a stream that writes to fd, an empty file that is open for writing. fclose writes
 * what is still in the buffer, so its result must be checked; it leaves fd open, and syncs nothing.
 * path is for messages. Errors: io, memory; *out is NULL then. */
int file_around_open(FILE **out, int fd, const char *path, kv_err *e);

#endif
