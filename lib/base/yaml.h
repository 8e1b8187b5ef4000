/* Texts of users as YAML holds them, so that a reader of YAML gets the same bytes back. Texts are
 * UTF-8: YAML has nothing else. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

/* Appends n bytes of valid UTF-8 in double quotes, on one line. Characters that cannot be seen are
 * written by their numbers. */
void yaml_quote(buf *out, const char *text, size_t n);

/* Appends `key: ` and n bytes of valid UTF-8, and ends the line. The key stands `indent` columns
 * in. Lines are shown as they are where YAML keeps each of their bytes, else in quotes. */
void yaml_text(buf *out, int indent, const char *key, const char *text, size_t n);

/* Appends n bytes in base64. */
void yaml_base64(buf *out, const char *bytes, size_t n);
