/* JSON from strangers, read value by value in one pass, without a tree: a header of a million
 * tensors needs the memory of its names and no more. Every mistake is an error at its byte.
 *
 *     json_scan s = {.path = path, .text = text, .n = n, .max_depth = 3, .e = e};
 *     int rc = json_scan_open(&s, '{');
 *     while (json_scan_item(&s, '}', &rc)) {
 *         if (!(rc = json_scan_name(&s, &name)))
 *             rc = json_scan_skip(&s);
 *     }
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "kv_err.h"

typedef struct json_scan {
    const char *path; /* for messages */
    const char *text; /* n bytes */
    int64_t n;
    int64_t begin; /* of the text in its file: messages count bytes of that */
    const char *what; /* the text is, in messages; NULL: "header" */
    int max_depth; /* of brackets */
    kv_err *e;
    /* The scanner's own: */
    int64_t at;
    int depth;
    int64_t items; /* so far, to ask whether to end early */
    bool fresh; /* the last bracket has no item yet */
} json_scan;

/* The next character that is not a blank, or 0 at the end. */
char json_scan_peek(json_scan *s);

/* Takes a { or [. */
int json_scan_open(json_scan *s, char bracket);

/* Returns true before each item, the comma taken; false behind the last, the bracket taken, and
 * when *rc is an error. Also: interrupted. */
bool json_scan_item(json_scan *s, char bracket, int *rc);

/* Takes a text; out gets it unescaped. Refused: a NUL, bytes that are not UTF-8, half of a pair of
 * surrogates. */
int json_scan_text(json_scan *s, buf *out);

/* Takes the name of a member and its colon. */
int json_scan_name(json_scan *s, buf *out);

/* Takes a whole number from 0 on, of at most 15 digits: such numbers are exact in every reader. */
int json_scan_whole(json_scan *s, int64_t *x);

/* Steps over one of these words; false: none of them stands here. */
bool json_scan_word(json_scan *s, const char *const words[3]);

/* Steps over any value. */
int json_scan_skip(json_scan *s);

/* Only blanks may follow. */
int json_scan_end(json_scan *s);
