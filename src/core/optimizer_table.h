/* The tables of an optimizer, from keys or names to multipliers (lr_mult, wd_mult) or from keys to
 * names (names): "0=1.7,3=0.3", "0=fc_weight". A key is its text here. All zero is empty.
 */
#ifndef CORE_OPTIMIZER_TABLE_H
#define CORE_OPTIMIZER_TABLE_H

#include "base/map.h"
#include "base/mem.h"

typedef struct optimizer_table {
    map index; /* from keys to places in the lists */
    const char **keys;
    const char **texts; /* of names */
    double *numbers;    /* of multipliers */
    int64_t n;
} optimizer_table;

/* Makes room for n keys in a's memory. Error: memory. */
int optimizer_table_reserve(optimizer_table *t, int64_t n, arena *a, kv_err *e);

/* Puts a key, whose room is reserved, or replaces what it has. key and text are not copied. Error:
 * memory. */
int optimizer_table_put(optimizer_table *t, const char *key, const char *text, double number,
                        kv_err *e);

/* Reads pairs of a key and a number, or of a key and a name, each key once, into an empty table.
 * what: the parameter, for errors: value (no such pairs, a key twice), memory. */
int optimizer_table_read(optimizer_table *t, const char *what, const char *text, bool numbers,
                         arena *a, kv_err *e);

/* The place of a key, which may be NULL; -1 when it is not there. */
int64_t optimizer_table_find(const optimizer_table *t, const char *key);

/* Releases the index; the rest is the arena's. */
void optimizer_table_release(optimizer_table *t);

#endif
