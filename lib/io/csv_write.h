/* Writing CSV files, as io/csv.h reads them. */
#ifndef IO_CSV_WRITE_H
#define IO_CSV_WRITE_H

#include <stdio.h>

#include "array/kv_array.h"
#include "base/buf.h"
#include "io/csv.h"

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

#endif
