/* JSON as it is written, value by value, at the end of a text:
 *
 *     json_writer w = {.out = &text};
 *     json_begin(&w, NULL, '{');
 *     json_text(&w, "name", "a");
 *     json_ints(&w, "shape", 2, shape);
 *     json_end(&w, '}');                 {"name":"a","shape":[2,3]}
 *
 * Every function takes the name of the field; it is NULL for an item of a list, and for the value
 * that is the whole text. The writer puts commas. Running out of memory is remembered by the buf.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/num.h"

typedef struct json_writer {
    buf *out;
    bool comma; /* a value stands before the next one in the same list or object */
} json_writer;

/* An object or a list, up to the json_end with the other bracket. */
void json_begin(json_writer *w, const char *name, char bracket);
void json_end(json_writer *w, char bracket);

/* text: in quotes and escaped, bytes that are not UTF-8 as U+FFFD; NULL is null. */
void json_text(json_writer *w, const char *name, const char *text);
void json_bool(json_writer *w, const char *name, bool x);
/* Numbers as json_int_text and json_float_text write them. */
void json_int(json_writer *w, const char *name, int64_t x);
void json_ints(json_writer *w, const char *name, int64_t n, const int64_t *x);
void json_float(json_writer *w, const char *name, double x);

/* Appends a text as json_text does; ascii: every other character is escaped. */
void json_quoted(buf *out, const char *text, bool ascii);

/* Begins a value that the caller appends itself, to the buf that is returned. */
buf *json_field(json_writer *w, const char *name);

/* A number in NUM_TEXT_MAX bytes; return the length. A reader that goes through a double would
 * change integers beyond 2^53, so they are texts, and so are nan, inf and -inf. A float is the
 * shortest text that read as a double and rounded to the width gives x. */
int json_int_text(char *out, int64_t x);
int json_float_text(char *out, double x, num_width width);
