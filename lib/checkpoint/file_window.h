/* A window on a file: a part of it as memory.
 *
 * The part is mapped while that is quicker than copying: where the page cache holds the file in
 * large pages, hashing from a mapping runs at the speed of memory, from a buffer at two thirds. In
 * small pages it is the other way round on some machines: each 64 KB cost a fault. A mapped file
 * that shrinks raises SIGBUS where its lost bytes are read. So files are mapped only in processes
 * whose SIGBUS handler calls file_window_fault, which puts zeros there and remembers it; in others
 * they are read into a buffer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kv_err.h"

/* All zero is a window on nothing. One thread at a time may use it. */
typedef struct file_window {
    const char *data; /* of the part */
    int64_t begin, bytes; /* the part */
    int fd;
    const char *name; /* of the file, for messages */
    int slot;     /* in the table of mapped windows, from 1; 0: data is a buffer */
    int64_t faults; /* of the thread, when the part was mapped */
    bool small;     /* the last parts of this file stood in small pages: it is read */
    bool always; /* the owner's: small pages are mapped too, and no more is read than asked for */
    char *buffer;
    int64_t cap;
} file_window;

/* Makes *data point to n bytes of the file (size bytes, called name, borrowed) from `at` on, all
 * within its size, until the next move. A new part has up to `most` bytes, n at least; with 0 it is
 * read, not mapped. Errors: io,
 * also when the file of the last part became shorter while that was read; memory. */
int file_window_move(file_window *w, const void **data, int fd, const char *name, int64_t size,
                     int64_t at, int64_t n, int64_t most, kv_err *e);

/* Maps n bytes of a file, all within its size, as a part that several threads may look at, and
 * returns them; NULL: they would have to be read. */
const char *file_window_map(file_window *w, int fd, const char *name, int64_t size, int64_t at,
                            int64_t n);

/* Checks the last part again: the end of reading. Error: io, as above. */
int file_window_check(const file_window *w, kv_err *e);

void file_window_close(file_window *w);

/* For the process's handler of SIGBUS: returns true when the address is in a mapped window, which
 * then holds zeros from there on. Safe in a handler. The first call of file_window_handled, before
 * any window is made, tells that there is such a handler. */
bool file_window_fault(const void *address);
void file_window_handled(void);
