/* Hints at load(), which show it with the options that were given: what a user copies must not lose
 * one. */
#ifndef IO_CSV_HINT_H
#define IO_CSV_HINT_H

#include "base/buf.h"
#include "io/csv.h"
#include "kv_err.h"

/* Adds a column to a list in brackets: by its name of n bytes, or by its number where name is NULL.
 */
void csv_hint_column(buf *list, const char *name, size_t n, int64_t number);

/* Adds the columns of o whose texts become codes, or columns of 0 and 1. */
void csv_hint_text_columns(buf *list, const csv_options *o, bool onehot);

/* Adds the hint `load("PATH", OPTIONS, MORE)BEHIND` to e. OPTIONS are the given ones (NULL: there
 * are none) without the one that MORE sets. */
void csv_hint_load(const csv_options *given, const char *path, kv_err *e, const char *more,
                   const char *behind);

#endif
