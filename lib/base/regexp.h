/* Regular expressions: PCRE2's, which knows Python's syntax and more, and what Python puts in the
 * place of a match. kvctl uses this dialect everywhere, for texts and for names of keys.
 *
 * Written as in Python where the two differ: \Z is the end, {,n} at most n times, \v a vertical
 * tab. Letters and digits are Unicode's. A search that would try a million ways at one place of the
 * text is an error. The file is not called regex.h, since public headers make this folder one that
 * <regex.h> is looked for in.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "kv_err.h"

typedef struct regex regex;

/* Errors: value (not a regular expression), memory, unsupported (PCRE2 is not in this build or on
 * this machine). */
int regex_new(regex **out, const char *pattern, kv_err *e);
void regex_free(regex *r); /* NULL is allowed */

/* The number of its groups. */
int regex_groups(const regex *r);

/* Finds the first match at or behind the byte `from`. at_once: only a match that begins there.
 * not_empty: no empty match there. span[2 * i] and span[2 * i + 1]: where group i begins and
 * ends, group 0 being all of it; -1 when it is not part of the match. Errors: value (a limit of
 * PCRE2's), memory, interrupted. */
int regex_search(regex *r, const char *text, int64_t n, int64_t from, bool at_once, bool not_empty,
                 int64_t *span, bool *found, kv_err *e);

/* Refuses a replacement with a reference to a group that there is not, or an escape that is not
 * known. Known are Python's: \1, \g<1>, \g<0> (the whole match), \g<name>, \n and its like, \\.
 * Error: value. */
int regex_check_replacement(const regex *r, const char *to, kv_err *e);

/* Appends text to *out with `to`, which was checked, in the place of the first `most` matches; 0:
 * of all. Empty matches are Python's. *replaced (or NULL): how many. Errors: those of
 * regex_search. */
int regex_replace(regex *r, const char *text, int64_t n, const char *to, int64_t most, buf *out,
                  int64_t *replaced, kv_err *e);
