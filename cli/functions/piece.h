/* Bytes of a text, for the functions that take texts apart. Borrowed from a value. */
#ifndef EVAL_PIECE_H
#define EVAL_PIECE_H

#include "syntax/function.h"

typedef struct piece {
    const char *text;
    int64_t n;
} piece;

/* The text that v is. Error: dtype. */
int piece_of(value v, const char *what, piece *out, kv_err *e);

/* The text that a function is of: its first argument. Error: dtype. */
int text_of(function_args *args, piece *out, kv_err *e);

/* The character at a byte and how many bytes it has; U+FFFD for a byte that is no UTF-8. */
uint32_t piece_character(piece p, int64_t at, int64_t *bytes);
/* Where the character that ends at `end` begins. */
int64_t piece_last(piece p, int64_t end);

/* The byte from which `what` stands in p: the first one at or behind from, the last one that ends
 * at or before end. -1: none. */
int64_t piece_find(piece p, piece what, int64_t from);
int64_t piece_find_last(piece p, piece what, int64_t end);

/* count() and index() of a text; those of lists have the same names. */
int text_count(function_args *args, value *out, kv_err *e);
int text_index(function_args *args, value *out, kv_err *e);

#endif
