/* Texts as values: counted UTF-8 that never changes, indexed by characters.
 *
 * A text knows how many bytes and characters it has, and where the last character that was asked
 * for begins, so that a loop over a text takes linear time. Bytes that are no UTF-8 count as one
 * character each.
 */
#ifndef SESSION_TEXT_H
#define SESSION_TEXT_H

#include "session/value.h"

int64_t text_bytes(value text);
int64_t text_length(value text); /* characters */

/* The byte at which character i begins, 0 <= i <= text_length. */
int64_t text_byte_of(value text, int64_t i);

/* n characters: from, from + step, …, all of which are there. */
int text_part(value *out, value text, int64_t from, int64_t step, int64_t n, kv_err *e);

/* Puts `more` behind a text that *text alone refers to, if it does: in time of what is added, but
 * for a copy now and then. Returns false, with nothing changed, when others refer to it too. */
bool text_append(value *text, value more, int *code, kv_err *e);

/* Another reference, and the end of one; for value.c. */
void text_ref(const char *text);
void text_unref(const char *text);

#endif
