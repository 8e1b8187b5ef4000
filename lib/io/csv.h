/* CSV files of arrays, through libcsv (whose names also begin with csv_: it has a csv_write, hence
 * the longer names here).
 *
 * A file of rows of numbers is an array of two axes. A first line `# shape=2,3,4 dtype=float16`
 * says another shape (comma-separated sizes; `shape=` alone, nothing behind it, is a single number)
 * or dtype. Blanks round a cell, +2, .3e1, nan, inf, -0, true, false, blank lines, a BOM and CRLF
 * are fine. A first row with no number in any cell, and with as many cells as the rows, is a header
 * and skipped; one of nothing but NA and the like is not, nor one with a number in another notation
 * (22,5). Without a dtype numbers become float32,
 * and integers that it does not hold are refused.
 */
#pragma once

#include <stdio.h>

#include "array/kv_array.h"
#include "base/buf.h"

/* What the cells of a column are, and so how their texts become numbers. */
typedef enum csv_kind { CSV_NUMBERS, CSV_CODES, CSV_ONEHOT } csv_kind;

/* A column, by the name that the header gives it, or by its number from 0; a negative number counts
 * from the last. */
typedef struct csv_column {
    const char *name; /* NULL: by its number */
    int64_t number;
} csv_column;

/* A column of texts, whose cells become numbers: codes 0, 1, ... of its texts in their order, or a
 * column of 0 and 1 for each text, in its place. */
typedef struct csv_text_column {
    csv_column column;
    bool onehot;
    const char *const *texts; /* in this order, another one is an error; NULL: those of the file,
                                 sorted by their bytes */
    int64_t ntexts;
} csv_text_column;

/* Settings of a reader. All zero: it finds out. */
typedef struct csv_options {
    bool has_dtype;
    kv_dtype dtype; /* wins over the file's own */
    int8_t header;  /* 0: see above; 1: the first row is one, of any length; -1: it is not */
    char separator; /* 0: a comma; a blank: any run of blanks and tabs */
    bool fills;     /* a cell that is empty or one of `missing` becomes `filler` */
    double filler;
    const char *const *missing; /* NULL: NA, N/A, null, None, ? and - in any case */
    int64_t nmissing;
    const csv_column *columns; /* the array has these columns only, in this order; NULL: all. What
                                  stands in the others is not looked at */
    int64_t ncolumns;
    const csv_text_column *texts; /* among the columns of the array */
    int64_t ntexts;
    csv_kind every; /* of each column whose first cell is not a number, unless texts has it */
    char decimal;   /* the sign before fractions; 0: a point */
    char thousands; /* may stand between digits, before groups of three; 0: nothing may */
    bool percent;   /* a number with % behind it is divided by 100 */
    char comment;   /* lines that begin with it are passed over; 0: none are */
    bool *unmarked; /* (optional) becomes true if no cell is one of `missing`, and one was empty */
    bool *doubtful; /* (optional) becomes true if the first row was taken for a header, and all rows
                       are texts */
    const char *path;   /* what hints at load() call the file; NULL: its name */
    const char *format; /* of load(), for hints; NULL: its ending says it */
    bool strings;       /* of load(): dtype="str" */
} csv_options;

/* Reads a stream that is called `name` to its end, in pieces: needs little memory beside the array.
 * Errors name the file's own line and column first, as in `x.csv:3:2: "abc" is not a number`,
 * columns counted in cells; code format: no number, ragged rows, an empty cell or file, a NUL byte,
 * a number that the dtype cannot hold (too large, or a fraction for an integer), a count that does
 * not fit the shape; name, index: a column that is not there; shape: columns of an array that has
 * not two axes; memory; io. A row with words gets a hint at its columns of numbers, at another
 * separator, or at comment=; hints keep what o sets. o may be NULL, and must stay as it is until
 * the stream has been read. */
int csv_read_stream(kv_array **out, FILE *f, const char *name, const csv_options *o, kv_err *e);

/* Reads the one column of o->columns as texts: visit gets the text of each row, "" for a missing
 * one, or each text once, sorted, without missing ones. Errors: those of csv_read_stream and of
 * visit. */
int csv_read_texts(FILE *f, const char *name, const csv_options *o, bool each,
                   int (*visit)(void *arg, const char *text, kv_err *e), void *arg, kv_err *e);

/* ---- Writing --------------------------------------------------------------------------------- */

/* Appends a so that csv_read_stream gives back an equal array: the first line above when a has
 * other than two axes, another dtype than float32, or no element; then a row a line. The first axes
 * are flattened into rows, and a vector is one column. bool is written as 1 and 0. */
int csv_write_array(buf *out, kv_array *a, kv_err *e);

/* The same to a stream, in pieces. Of o (may be NULL) the separator counts, and header: -1 leaves
 * the first line out, and then a vector is one row. Also: io. */
int csv_write_stream(FILE *f, kv_array *a, const char *name, const csv_options *o, kv_err *e);

/* Checks that the rows of a can be added to f: they are as wide as its rows, and have the dtype
 * that its first line names. f: NULL for a file that is not there. separator: of cells; path: for
 * messages. Errors: shape, dtype, io, memory. */
int csv_rows_fit(FILE *f, const char *path, kv_array *a, char separator, kv_err *e);
