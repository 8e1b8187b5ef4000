/* The kinds of files that hold arrays, and of pictures, by the ending of a path or by the name of a
 * format. */
#pragma once

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
    FILE_TEXT         /* .txt and "-": arrays as they are shown; it is not read */
} file_kind;

/* The kind of a path by its ending, in any case. */
file_kind file_kind_of(const char *path);

/* Returns true if a path is read as a checkpoint, that is arrays by name: it ends in .safetensors,
 * .kvs, .npz, .gguf, .pt, .pth, .params, .safetensors.index.json or a slash. */
bool file_is_checkpoint(const char *path);

/* Returns true if a path ends as other tools name files of arrays, or packed files: what they are,
 * their first bytes say, and a checkpoint may be among them. */
bool file_is_of_other_tool(const char *path);

/* Returns true if a word behind > is a path by its ending, also by one that is not written: an
 * error then says which ones are. */
bool file_is_meant(const char *path);

/* The name of the i-th format that is read, from 0; NULL behind the last. */
const char *file_kind_format(int i);

/* The kind of the name of a format: "csv", …; error usage, with "did you mean". */
int file_kind_parse(file_kind *out, const char *name, kv_err *e);

/* Checks, before anything runs, a path that is to be written or added to. Error:
 * usage (no known ending, a kind that cannot grow). */
int file_kind_check(const char *path, bool append, kv_err *e);

/* "CSV": the name of a format as texts write it; NULL for one that is no format of arrays by
 * itself, and for safetensors. */
const char *file_kind_title(file_kind kind);

/* Checks the ending of a new file that is to keep `what`, "store" or "states": another program
 * would take x.npy for an array. Error: usage (the ending of a format that keeps none). */
int file_kind_check_keeps(const char *path, const char *what, kv_err *e);

/* The target of a picture, by the ending of its path. */
typedef enum plot_target { PLOT_NOWHERE, PLOT_TEXT, PLOT_SVG, PLOT_PNG } plot_target;
plot_target plot_target_of(const char *path);

/* Checks a path that a picture is to be written, or added, to. Error: usage. */
int plot_path_check(const char *path, bool append, kv_err *e);
