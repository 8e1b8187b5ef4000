/* Regular expressions: the syntax and the matches of Python's re, in time linear in the text.
 *
 * Known: . ^ $ | () (?:) [] * + ? {m,n} and each of the last four with ?, \d \w \s \b \A \Z and
 * their opposites, the escapes of characters. Not known, and refused: references to groups,
 * what looks ahead or behind, names of groups, flags. \d is 0 to 9. The file is not called
 * regex.h, since public headers make this folder one that <regex.h> is looked for in.
 */
#ifndef BASE_REGEXP_H
#define BASE_REGEXP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv_err.h"

typedef struct regex regex;

/* Errors: value (no regular expression), unsupported, memory. */
int regex_new(regex **out, const char *pattern, kv_err *e);
void regex_free(regex *r);

/* The number of its groups. */
int regex_groups(const regex *r);

/* Finds the first match at or behind the byte `from`. at_once: only a match that begins there.
 * not_empty: no empty match there. span[2 * i] and span[2 * i + 1]: where group i begins and
 * ends, group 0 being all of it; -1 when it is not part of the match. Errors: memory, interrupted.
 */
int regex_search(regex *r, const char *text, int64_t n, int64_t from, bool at_once, bool not_empty,
                 int64_t *span, bool *found, kv_err *e);

#endif
