/* Reports of errors in a text that was pasted. See lex.h.
 *
 * No statement begins like a line of a report: a colon with nothing but a number before it is no
 * expression, and a place has no blank and no quote before its `: error[`. A line of any kind has a
 * colon, so that most lines need no closer look.
 */
#include <string.h>

#include "lang/lex.h"

static size_t past_digits(const char *text, size_t n, size_t i)
{
    while (i < n && lex_is_digit(text[i]))
        i++;
    return i;
}

static bool begins(const char *text, size_t n, const char *word)
{
    size_t length = strlen(word);
    return n >= length && memcmp(text, word, length) == 0;
}

/* `FILE:3:8: error[key]: ` or `kvctl: error[key]: ` */
static bool is_first_line(const char *text, size_t n)
{
    static const char mark[] = ": error[";
    size_t word = 0, numbers = 0, i;
    while (word < n && !lex_is_blank(text[word]) && !strchr("\n\"'", text[word]))
        word++;
    if (word < 2 || !begins(text + word - 1, n - word + 1, mark))
        return false;
    for (i = word - 1; i > 0 && numbers < 2; numbers++) {
        size_t digits = i;
        while (digits > 0 && lex_is_digit(text[digits - 1]))
            digits--;
        if (digits < 2 || digits == i || text[digits - 1] != ':')
            break;
        i = digits - 1;
    }
    return numbers == 2 || (numbers == 0 && i == 5 && begins(text, n, "kvctl"));
}

size_t lex_gutter(const char *line, size_t n)
{
    size_t blanks = 0;
    while (blanks < n && line[blanks] == ' ')
        blanks++;
    size_t end = past_digits(line, n, blanks);
    size_t sign = end > blanks ? end + 1 : end;
    if (blanks == 0 || sign >= n || line[sign] != ':')
        return 0;
    if (end > blanks ? line[end] != ' ' : blanks < 6)
        return 0;
    return sign + 1 == n || strchr(" \r\n", line[sign + 1]) ? sign : 0;
}

/* `  in FILE:12`, a caller below an error, or `  in FILE:12, key 3`, a push whose rule failed */
static bool is_frame(const char *line, size_t n)
{
    static const char mark[] = ", key ";
    const char *key = memmem(line, n, mark, sizeof mark - 1);
    size_t i;
    if (key)
        n = (size_t)(key - line);
    while (n > 0 && strchr("\r ", line[n - 1]))
        n--;
    for (i = n; i > 0 && lex_is_digit(line[i - 1]);)
        i--;
    return begins(line, n, "  in ") && i < n && line[i - 1] == ':';
}

static size_t line_length(const char *text, size_t n)
{
    const char *newline = memchr(text, '\n', n);
    return newline ? (size_t)(newline - text) : n;
}

size_t lex_report(const char *text, size_t n)
{
    size_t blanks = 0, end = line_length(text, n);
    if (!memchr(text, ':', end))
        return 0;
    while (blanks < end && text[blanks] == ' ')
        blanks++;
    if (!lex_gutter(text, end) && !is_frame(text, end) && !begins(text, end, " hint: ") &&
        !begins(text, end, "note: ") && !begins(text, end, "warning: ") &&
        !is_first_line(text + blanks, end - blanks))
        return 0;
    while (end + 1 < n && text[end + 1] == ' ' && !lex_margin(text + end + 1, n - end - 1))
        end += 1 + line_length(text + end + 1, n - end - 1);
    return end;
}
