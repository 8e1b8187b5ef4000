/* A hint is found by the first word of the line, or by the sign at which the parser stopped. */
#include "syntax/hint_python.h"

#include <string.h>

static const struct {
    const char *word, *hint;
} statements[] = {
    {"class", "there are no classes: a dict holds values by name, {'a': 1}; a type of stores is a "
              "table in C, as in examples/average.c"},
    {"try", "no error is caught: ask first, as in `if k in d:`; kvctl -k goes on after errors"},
    {"except", "no error is caught: ask first, as in `if k in d:`; kvctl -k goes on after errors"},
    {"finally", "no error is caught: ask first, as in `if k in d:`; kvctl -k goes on after errors"},
    {"raise", "assert CONDITION, \"text\" fails with a text; exit(3) ends with a status"},
    {"with", "files are opened and closed by load(\"in.csv\") and `write x out.csv`"},
    {"del", "l.pop(i) takes an item out of a list, d.pop(k) out of a dict; names stay"},
    {"global", "a def gives back what it computes: n = f(n); it changes arrays and lists in place"},
    {"nonlocal", "a def gives back what it computes: n = f(n); it changes arrays and lists in "
                 "place"},
    {"yield", "collect the values in a list, and return that"},
    {"async", "calls of stores do not wait anyway; reading a value does"},
    {"await", "calls of stores do not wait anyway; reading a value does"},
    {"match", "use if and elif"},
    {"lambda", "give it a name: def f(x) = x + 1"},
};

static const char *statement_hint(const char *word, size_t n)
{
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (strlen(statements[i].word) == n && memcmp(statements[i].word, word, n) == 0)
            return statements[i].hint;
    return NULL;
}

bool hint_python_word(const char *word, size_t n, kv_err *e)
{
    const char *hint = statement_hint(word, n);
    if (hint)
        kv_err_hint(e, "%s", hint);
    return hint != NULL;
}

static size_t word_length(const char *text, const char *end)
{
    size_t n = 0;
    while (text + n < end && lex_is_letter(text[n]))
        n++;
    return n;
}

static bool begins(const char *at, const char *end, const char *with)
{
    size_t n = strlen(with);
    return (size_t)(end - at) >= n && memcmp(at, with, n) == 0;
}

/* By what stands at the error, in a line that begins with a word. */
static const char *sign_hint(const char *word, size_t n, const char *at, const char *end)
{
    bool def = n == 3 && memcmp(word, "def", n) == 0;
    if (begins(at, end, ":="))
        return "assign in a statement of its own: n = 3";
    if (begins(at, end, ":"))
        return def ? "parameters have no types: def f(x)" : "names have no types: x = 3";
    if (def && begins(at, end, "->"))
        return "a def has no type: def f(x):";
    if (def && begins(at, end, "*"))
        return "a parameter may be a list or a dict: def f(items)";
    if (begins(at, end, "else"))
        return "a loop has no else: set a name before `break`, and ask for it";
    if (begins(at, end, "&") || begins(at, end, "|"))
        return "`and` and `or` join conditions; there are no operators of bits";
    bool expects = n == 6 && memcmp(word, "expect", n) == 0; /* expect <<END */
    if (begins(at, end, "~") || (begins(at, end, "<<") && !expects))
        return "there are no operators of bits; `not` turns a condition round, `* 2 ** n` shifts";
    return NULL;
}

void hint_python(parser *p)
{
    const source *src = p->lx.src;
    const char *line = src->text, *all = src->text + src->len;
    for (int i = 1; i < p->e->line && line < all; i++) {
        const char *newline = memchr(line, '\n', (size_t)(all - line));
        line = newline ? newline + 1 : all;
    }
    const char *newline = memchr(line, '\n', (size_t)(all - line));
    const char *end = newline ? newline : all, *at = line + p->e->col - 1;
    line += lex_margin(line, (size_t)(end - line));
    while (line < end && lex_is_blank(*line))
        line++;
    size_t n = word_length(line, end);
    const char *hint = statement_hint(line, n);
    for (const char *c = line; !hint && c < at && c < end; c++)
        if (begins(c, end, "lambda ") || begins(c, end, "lambda:"))
            hint = statement_hint("lambda", strlen("lambda"));
    if (!hint && at >= line && at < end)
        hint = sign_hint(line, n, at, end);
    if (hint)
        kv_err_hint(p->e, "%s", hint);
}
