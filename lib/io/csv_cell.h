/* What stands in the cells of a table besides plain numbers: texts, which become numbers, and
 * numbers in another notation; and hints at load(), with which they are read. */
#pragma once

#include "base/map.h"
#include "base/mem.h"
#include "io/csv.h"

/* Begins zeroed. */
typedef struct csv_labels {
    csv_kind kind;
    bool fixed; /* texts was given: there are no others */
    const char **texts; /* n, each once: in the order given, or that of their first rows */
    int64_t n, cap;
    int64_t *rows; /* of each row the number of its text; -1: it is missing */
    int64_t nrows, rows_cap;
    map numbers;
    arena memory;
} csv_labels;

/* Adds the text of the next row, or NULL: it is missing. Errors: format (without a place: no text
 * of these, or no UTF-8), memory. */
int csv_labels_add(csv_labels *l, const char *text, size_t n, kv_err *e);

/* Adds texts that the column may have, in this order, before the first row. Errors: value (one
 * stands twice), memory. */
int csv_labels_give(csv_labels *l, const char *const *texts, int64_t n, kv_err *e);

/* The columns of numbers that it makes. */
static inline int64_t csv_labels_width(const csv_labels *l)
{
    return l->kind == CSV_ONEHOT ? l->n : 1;
}

/* Sorts the texts of n columns by their bytes, unless they were given, and makes an array of all:
 * *data, with room for one number in each of n columns, becomes one of *width columns. filler: for
 * what is missing. name is for messages. Errors: format (a code does not fit the dtype), memory,
 * interrupted. */
int csv_labels_spread(csv_labels *l, int64_t n, int64_t rows, kv_dtype dtype, double filler,
                      char **data, int64_t *width, const char *name, kv_err *e);

void csv_labels_release(csv_labels *l);

/* Rewrites a number with another decimal sign, with marks between thousands (0: there are none), or
 * with % behind it where that is allowed, in the usual notation: 12,5 % is 12.5e-2. Returns false
 * for what is not one; then out is nothing of use. */
bool csv_plain_number(buf *out, char decimal, char thousands, bool percent, const char *cell,
                      size_t n);

/* Options of load() with which a cell becomes a number, and which go with those that are set; NULL:
 * no options do. room is for the work. */
const char *csv_notation(buf *room, const csv_options *o, const char *cell, size_t n);

/* ---- Hints ----------------------------------------------------------------------------------- */

/* They show load() with the options that were given: what a user copies must not lose one. */

/* Adds a column to a list in brackets: by its name of n bytes, or by its number where name is NULL.
 */
void csv_hint_column(buf *list, const char *name, size_t n, int64_t number);

/* Adds the columns of o whose texts become codes, or columns of 0 and 1. */
void csv_hint_text_columns(buf *list, const csv_options *o, bool onehot);

/* Returns true if one of the first two lines of n bytes has both `;` and a comma between digits. */
bool csv_has_comma_points(const char *text, size_t n);

/* Adds the hint `load("PATH", OPTIONS, MORE)BEHIND` to e. OPTIONS are the given ones (NULL: there
 * are none) without the one that MORE sets. */
void csv_hint_load(const csv_options *given, const char *path, kv_err *e, const char *more,
                   const char *behind);
