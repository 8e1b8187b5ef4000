/* Characters of Unicode: what is blank, what ends a line, which letters are large and small. As
 * Python has it, but that a letter stands for one other letter here. */
#ifndef BASE_LETTER_H
#define BASE_LETTER_H

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>

bool letter_is_space(uint32_t c);

/* The blanks of ASCII that stand around words and lines of scripts and files: no NUL, which strchr
 * would find among them too. */
static inline bool letter_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool letter_ends_line(uint32_t c);

/* The large or small letter of c, or c itself. 0 when it is none of one letter: of `ﬁ`, say. */
uint32_t letter_upper(uint32_t c, locale_t unicode);
uint32_t letter_lower(uint32_t c, locale_t unicode);

#endif
