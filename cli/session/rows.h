/* Tables that commands give: rows of typed cells, which printers write as aligned text, as CSV
 * and as JSON. */
#ifndef SESSION_ROWS_H
#define SESSION_ROWS_H

#include "kvstore.h"
#include "session/value.h"

typedef struct rows_column {
    const char *name; /* in JSON */
    const char *head; /* above the column in text; NULL in the first column: there are no heads */
} rows_column;

/* Begins empty with only columns and ncolumns set. */
typedef struct rows {
    const rows_column *columns; /* a constant table */
    int ncolumns;
    value *cells;   /* row by row */
    int64_t n, cap; /* cells */
} rows;

/* Adds the next cell; takes v, also on failure. */
int rows_add(rows *r, value v, kv_err *e);
int rows_add_text(rows *r, const char *text, kv_err *e);
/* A shape, as a tuple. */
int rows_add_shape(rows *r, int ndim, const int64_t *shape, kv_err *e);
/* A key, as an integer or a text. */
int rows_add_key(rows *r, kv_key key, kv_err *e);

/* Appends the rows as text: columns as wide as their widest cell, two blanks apart. The heads are
 * only there when there are rows. none is shown as "-". A text in a column called "key" is shown as
 * a key is written. */
int rows_print(buf *out, const rows *r, kv_err *e);

/* Appends the rows as CSV, below a line of the names that the columns have in JSON. none is an
 * empty cell; a cell with the separator, a quote or a line end in it is quoted. */
int rows_csv(buf *out, const rows *r, char separator, kv_err *e);

void rows_release(rows *r);

/* A field of a row that kv_describe gives, by its name: its text, or ""; its number, or 0. */
const char *field_text(const kv_field *fields, int n, const char *name);
int64_t field_number(const kv_field *fields, int n, const char *name);

#endif
