/* UTF-8: where characters begin and end. Invalid bytes count as one character each. */
#pragma once

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns true if a text ends in another one. */
static inline bool utf8_ends_in(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && memcmp(text + n - m, ending, m) == 0;
}

/* The number of line ends in n bytes of text. */
static inline int64_t text_newlines(const char *text, size_t n)
{
    int64_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Returns true if c is a later byte of a character. */
static inline bool utf8_is_later(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* The bytes of the first character of text (n >= 1 bytes); *ok says whether it is valid: not
 * cut, not overlong, no surrogate, at most U+10FFFF. An invalid one has one byte. */
size_t utf8_length(const char *text, size_t n, bool *ok);

/* Returns true if n bytes of text are valid characters. */
bool utf8_valid(const char *text, size_t n);

/* The number of the valid character at text, which has `size` bytes. */
uint32_t utf8_number(const char *text, size_t size);

/* Writes the character of a number, at most U+10FFFF. Returns its bytes. */
size_t utf8_put(char out[4], uint32_t c);

/* The number of n bytes of text to keep: at most max, ending with a whole character. */
size_t utf8_cut(const char *text, size_t n, size_t max);

/* The number of characters in n bytes of text. */
int64_t utf8_count(const char *text, size_t n);

/* Classes of Unicode characters: blanks, line ends, and the case of letters. The results are
 * Python's, except that a letter maps to one letter here. */

bool letter_is_space(uint32_t c);

/* ASCII blanks around words and lines of scripts and files. Unlike strchr(" \\t\\r\
", c), false for
 * a NUL. */
static inline bool letter_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool letter_ends_line(uint32_t c);

/* The upper or lower case of c, or c itself. 0 when that is several letters, as for `ﬁ`. */
uint32_t letter_upper(uint32_t c, locale_t unicode);
uint32_t letter_lower(uint32_t c, locale_t unicode);
