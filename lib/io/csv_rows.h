/* Adding rows to a CSV file. */
#ifndef IO_CSV_ROWS_H
#define IO_CSV_ROWS_H

#include <stdio.h>

#include "array/kv_array.h"

/* Checks that the rows of a can be added to f: they are as wide as its rows, and have the dtype
 * that its first line names. f: NULL for a file that is not there. separator: of cells; path: for
 * messages. Errors: shape, dtype, io, memory. */
int csv_rows_fit(FILE *f, const char *path, kv_array *a, char separator, kv_err *e);

#endif
