/* The bytes of a file that is read from any place: a regular file, a file in memory, or a stream,
 * which is kept in a temporary file without a name. Several threads may read from one. */
#pragma once

#include <stdint.h>
#include <time.h>

#include "kv_err.h"

typedef struct input {
    char *name;         /* of the file, for messages */
    int fd;             /* -1 when the file is in memory */
    const char *memory; /* then all of it */
    char *owned;        /* memory, when it is this structure's */
    int64_t cap;        /* of owned */
    int64_t size;       /* bytes */
    uint64_t inode;          /* 0: none */
    struct timespec changed; /* when it was opened, the time of the file's last change */
} input;

/* Opens a file, or stdin for "-". The file may be replaced meanwhile, not changed: a change in
 * place that was cut short is ended first, and while the file is open no other begins, see
 * in_place.h. A stream larger than INPUT_MEMORY goes to a temporary file in $TMPDIR, or in
 * /var/tmp. Errors: io, memory, interrupted; busy, format (of such a change). After a failure in
 * need not be closed. */
#define INPUT_MEMORY ((int64_t)16 << 20)
int input_open(input *in, const char *path, kv_err *e);

/* The same for n bytes in memory, borrowed until it is closed. */
int input_open_memory(input *in, const void *text, int64_t n, const char *name, kv_err *e);

/* Makes an empty one, which input_append fills: it is kept as a stream is. */
int input_new(input *in, const char *name, kv_err *e);
int input_append(input *in, const void *data, int64_t n, kv_err *e);

void input_close(input *in);

/* Reads n bytes from `at` on. Errors: io, also when the file has become shorter. */
int input_read(const input *in, void *to, int64_t at, int64_t n, kv_err *e);

/* Checks that nobody has changed the file since it was opened, which a reader asks who comes back
 * to it much later. Error: io. */
int input_check_same(const input *in, kv_err *e);
int input_changed(const input *in, kv_err *e); /* its error */

/* Returns how many of the n bytes from `at` on are a hole: zeros that take no room on the disk. */
int64_t input_hole(const input *in, int64_t at, int64_t n);

/* ---- Through a buffer ------------------------------------------------------------------------ */

/* A file read by pieces, for headers whose length nothing tells. */
typedef struct byte_reader {
    const input *in;
    int64_t at; /* of the next byte; a caller may set it to any place in the file */
    /* The reader's own: */
    unsigned char *buffer;
    int64_t cap, begin, bytes; /* the part of the file that it holds */
} byte_reader;

/* The bytes from here to the end of the file. */
int64_t byte_reader_left(const byte_reader *r);

/* Makes *p point to n bytes from here on, until the next call; there must be as many, and `at`
 * stays. Where they have to be read, `ahead` bytes are, if there are any. Errors: io, memory. */
int byte_reader_look(byte_reader *r, const unsigned char **p, int64_t n, int64_t ahead, kv_err *e);

/* Takes n bytes; there must be as many. Errors: io, memory. */
int byte_reader_take(byte_reader *r, void *to, int64_t n, kv_err *e);

void byte_reader_release(byte_reader *r);
