/* The kinds of files that hold arrays: what the ending of a name stands for, the
 * names of formats. */
#ifndef SYNTAX_FILE_KIND_H
#define SYNTAX_FILE_KIND_H

#include <stdbool.h>

#include "kv_err.h"

typedef enum file_kind {
    FILE_UNKNOWN,
    FILE_CSV,
    FILE_TSV,
    FILE_JSON,
    FILE_NDJSON,      /* an array a line */
    FILE_NPY,
    FILE_SAFETENSORS, /* arrays by name */
    FILE_TEXT         /* .txt and "-": what is shown; it is not read */
} file_kind;

/* The kind of a path by its ending, in any case. */
file_kind file_kind_of(const char *path);

/* The kind of the name of a format: "csv", …; error usage, with "did you mean". */
int file_kind_parse(file_kind *out, const char *name, kv_err *e);

/* Checks a path that is to be written, or added to: what can be said before anything runs. Error:
 * usage (no known ending, a kind that cannot grow). */
int file_kind_check(const char *path, bool append, kv_err *e);

/* "CSV": the name of a format as texts write it; NULL for one that is no format of arrays by
 * itself, and for safetensors. */
const char *file_kind_title(file_kind kind);

/* Whether the ends of what such a file holds are lines, so that >> can add some. */
bool file_kind_grows(file_kind kind);

#endif
