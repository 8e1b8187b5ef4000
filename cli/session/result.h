/* The results of commands: a value, a table, or a text. */
#pragma once

#include "base/mem.h"
#include "io/json_writer.h"
#include "kvstore.h"
#include "session/session.h"
#include "session/value.h"

/* ---- Tables ---- */

/* Tables that commands give: rows of typed cells, which printers write as aligned text, as CSV
 * and as JSON. */

typedef struct rows_column {
    const char *name; /* in JSON */
    const char *head; /* above the column in text; NULL in the first column: there are no heads; in
                         another: text lacks the column */
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
int rows_add_text(rows *r, const char *text, kv_err *e); /* NULL: none */
/* v, or none where it is not known. */
int rows_add_known(rows *r, bool known, value v, kv_err *e);
/* A shape, as a tuple. */
int rows_add_shape(rows *r, int ndim, const int64_t *shape, kv_err *e);
/* A key, as an integer or a text. */
int rows_add_key(rows *r, kv_key key, kv_err *e);

/* Appends the rows as text: columns as wide as their widest cell, two blanks apart. The heads are
 * only there when there are rows. none is shown as "-". A text in a column called "key" is shown as
 * a key is written, a large number in one called "ulps" as >1e7. */
int rows_print(buf *out, const rows *r, kv_err *e);

/* Appends the rows as CSV, below a line of the names that the columns have in JSON. none is an
 * empty cell; a cell with the separator, a quote or a line end in it is quoted. */
int rows_csv(buf *out, const rows *r, char separator, kv_err *e);

/* Writes the rows as a list of objects; or one row as members of an object. */
int rows_json(json_writer *w, const char *name, const rows *r, kv_err *e);
int rows_json_row(json_writer *w, const rows *r, int64_t row, kv_err *e);

void rows_release(rows *r);
#define own_rows OWN(rows_release) rows

/* A field of a row that kv_describe gives, by its name: its text, or ""; its number, or 0. */
const char *field_text(const kv_field *fields, int n, const char *name);
int64_t field_number(const kv_field *fields, int n, const char *name);

/* ---- Results ---- */

/* Both sides of a comparison that does not hold. */
typedef struct comparison {
    bool answered;  /* the command said whether something holds */
    bool holds, made;
    value left, right;
    value index;    /* a tuple: the first element that does not hold; none when shapes differ */
    value max_diff; /* the largest difference, or none */
    value differences; /* a tuple of the first: (index, left, right) of each */
} comparison;

/* A value, or one value a key. */
typedef struct result {
    value v;          /* VALUE_NONE: nothing to show */
    kv_key *keys;     /* a list value: item i belongs to keys[i], shown under its key; or NULL */
    int64_t nkeys;
    bool has_key;     /* v is the value of one key, which is not shown; files may name it */
    kv_key key;
    arena names;      /* where names of keys live */
    bool as_text;     /* v is text that is complete with its newlines: help, tables */
    bool dense;       /* v is row_sparse, one array or one a key, and shown with all its zeros */
    /* For --json; else these are not filled in. */
    bool shown;        /* v goes to stdout, not to a variable or file */
    bool as_json;      /* v is text that is one line of JSON */
    kv_key *about;     /* the keys that the command worked on, in names; or NULL */
    int64_t nabout;
    rows entries;      /* the rows of a table */
    rows summary;      /* rows of a name and a value that stand above the table */
    int64_t dropped;   /* keys whose states a change of the updater dropped */
    const char *entries_name; /* of them in the record, when not "entries" */
    comparison sides;  /* of an assert that does not hold */
    const char *refusal; /* in names: why the answer is no; NULL: it is not. See result_answer */
    struct result_file *files; /* one for each of several files; NULL: there is one or none */
    int64_t nfiles;
    const kv_err *failure; /* with refusal: the error of files that is worse than a no; or NULL */
} result;

/* The result for one of several files. The result that holds it has the text of all, and a table
 * of all whose first column is the file; --json has a record for each. */
typedef struct result_file {
    const char *path; /* in names of the result that holds it */
    result given;
    kv_err e;
    int64_t us; /* microseconds that it took */
} result_file;

void result_release(result *r);
#define own_result OWN(result_release) result

/* The end of a command that gives text, complete with its newlines, or a table, whose lines stand
 * behind the text and whose cells the record has: takes or releases what it is given, rc being
 * how the command went. Return rc, or an error of their own. */
int result_text(result *r, buf *text, int rc, kv_err *e);
int result_table(result *r, buf *text, rows *table, int rc, kv_err *e);

/* The command answers yes or no, which --json has as its value. When it is no, the statement fails
 * with `assert` and the text, but only behind its result, which is shown, stored or written first.
 * why: one line without a point, as "3 of 120 keys differ". Error: memory. */
int result_answer(result *r, bool yes, kv_err *e, const char *why, ...)
    __attribute__((format(printf, 4, 5)));

/* Room for one array a key: r->v becomes a list of n, r->keys a list to fill. Error: memory. */
int result_for_keys(result *r, int64_t n, kv_err *e);

/* ---- The form of values ---- */

/* One place decides for print, pull, bare expressions and redirects. Appends v in the session's
 * format, without a newline at the end. repr: as a bare expression shows it, else as print does. */
int show_value(session *s, buf *out, value v, bool repr, kv_err *e);

/* Appends the result of a command, complete with newlines; several keys are headed `5:`. */
int show_result(session *s, buf *out, const result *r, kv_err *e);

/* A scalar or a context as a field, or as an item where name is NULL. */
void show_scalar_json(json_writer *w, const char *name, value v);

/* A dict as an object; part writes each value. */
typedef int (*show_json_part)(json_writer *w, const char *name, value v, kv_err *e);
int show_dict_json(json_writer *w, const char *name, value dict, show_json_part part, kv_err *e);

/* Appends a key as a user would write it: 3, fc1.weight, "two words". */
void show_key(buf *out, kv_key key);

/* Appends a name as it stands between quotes of the language: a quote in it, backslashes and
 * hidden characters as escapes. */
void show_quoted(buf *out, const char *name, char quote);

/* Appends the indices of element i of an array: [0, 1]. */
void show_index(buf *out, const kv_array *a, int64_t i);

/* The format of a name ("numpy", "csv", …). Error: usage, with "did you mean". */
int show_format_parse(show_format *out, const char *name, kv_err *e);
const char *show_format_name(show_format f);
