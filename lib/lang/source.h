/* A text that is parsed, and where it came from. Places are byte offsets into it; lines and columns
 * are worked out only when a message needs them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv_err.h"

/* The begin of a line: where places are looked for from. */
typedef struct source_mark {
    uint32_t pos;
    int line;
} source_mark;

/* Borrows text and name, which must outlive it. The text ends in a NUL that len does not count. */
typedef struct source {
    const char *name; /* a file name, or "<cmd>", "<stdin>", "<repl>"; NULL: no place in messages */
    const char *text;
    uint32_t len;
    int line, col;    /* where the text begins in its file, from 1 */
    source_mark *mark; /* (optional) all zero at first: the newest line that was looked for, so that
                          many messages about a long text do not each count its lines */
} source;

/* A text of more than this many bytes is refused: offsets have 32 bits. */
#define SOURCE_MAX 0xfffffff0u

/* Line and column (from 1, in characters; a tab is one) of the byte at pos. */
void source_locate(const source *s, uint32_t pos, int *line, int *col);

/* Sets *pos to the begin of a line. false when there is no such line. */
bool source_find_line(const source *s, int line, uint32_t *pos);

/* The line of text around pos, without its end; returns its first byte and its length in bytes. */
const char *source_line(const source *s, uint32_t pos, size_t *len);

/* Sets code and text with the place pos..end of s. Returns code. */
int source_err(const source *s, uint32_t pos, uint32_t end, kv_err *e, kv_code code,
               const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* Adds the place to an error that has none. */
void source_at(const source *s, uint32_t pos, uint32_t end, kv_err *e);
