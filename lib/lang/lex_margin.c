/* Prompts and reports of errors in a text that was pasted. See lex.h. */
#include <string.h>

#include "lang/lex.h"

size_t lex_prompt(const char *text, size_t n, bool more)
{
    const char *end = text + n, *at = text + 2;
    if (n < 3 || memcmp(text, more ? ".." : "kv", 2) != 0)
        return 0;
    if (!more && *at == '[')
        for (at++; at < end && at[-1] != ']' && *at != '\n'; at++)
            ;
    if (!more && at < end && *at == ':')
        while (at < end && !strchr("*> \n", *at))
            at++;
    if (!more && at < end && *at == '*')
        at++;
    if (at == end || *at != '>')
        return 0;
    at++;
    if (at == end || *at == '\n' || *at == '\r')
        return (size_t)(at - text);
    return *at == ' ' ? (size_t)(at + 1 - text) : 0;
}

size_t lex_python_prompt(const char *text, size_t n, bool more)
{
    if (n < 3 || memcmp(text, more ? "..." : ">>>", 3) != 0)
        return 0;
    if (n == 3 || text[3] == '\n' || text[3] == '\r')
        return 3;
    return text[3] == ' ' ? 4 : 0;
}

/* The bytes of a prompt of an entry, or with more of one that goes on, and of the blanks before it,
 * or 0. */
static size_t any_prompt(const char *line, size_t n, bool more)
{
    size_t blanks = 0, found;
    while (blanks < n && lex_is_blank(line[blanks]))
        blanks++;
    if (!(found = lex_prompt(line + blanks, n - blanks, more)))
        found = lex_python_prompt(line + blanks, n - blanks, more);
    return found ? blanks + found : 0;
}

bool lex_begins_entry(const char *line, size_t n)
{
    return any_prompt(line, n, false) > 0;
}

size_t lex_margin(const char *line, size_t n)
{
    size_t found = any_prompt(line, n, false);
    return found ? found : any_prompt(line, n, true);
}

/* ---- Reports ----
 *
 * No statement begins like a line of a report: a colon with nothing but a number before it is no
 * expression, and a place has no blank and no quote before its `: error[`. A line of any kind has a
 * colon, so that most lines need no closer look.
 */

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
