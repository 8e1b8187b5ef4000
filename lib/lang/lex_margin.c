/* Prompts at the begin of a line that was pasted. See lex.h. */
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
