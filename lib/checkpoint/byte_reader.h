/* A file read from its begin on through a buffer, for headers whose length nothing tells. */
#ifndef CHECKPOINT_BYTE_READER_H
#define CHECKPOINT_BYTE_READER_H

#include "checkpoint/input.h"

typedef struct byte_reader {
    const input *in;
    int64_t at; /* of the next byte; a caller may set it to any place in the file */
    /* The reader's own: */
    char *buffer;
    int64_t begin, bytes; /* the part of the file that it holds */
} byte_reader;

/* The bytes from here to the end of the file. */
int64_t byte_reader_left(const byte_reader *r);

/* Takes n bytes; there must be as many. Errors: io, memory. */
int byte_reader_take(byte_reader *r, void *to, int64_t n, kv_err *e);

void byte_reader_release(byte_reader *r);

#endif
