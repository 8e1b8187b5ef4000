/* Writing large files around the page cache of the system: the cache takes fresh memory and a copy
 * for each page, which costs several times what the disk does, and holds a file that nobody is
 * about to read. A file system that cannot do it writes as usual.
 */
#ifndef BASE_FILE_AROUND_H
#define BASE_FILE_AROUND_H

#include <stdio.h>

#include "kv_err.h"

/* A stream that fills fd, an empty file. What it buffers is written by fclose, which may fail, and
 * leaves fd open; nothing is synced. path is for messages. Errors: io, memory. */
int file_around_open(FILE **out, int fd, const char *path, kv_err *e);

#endif
