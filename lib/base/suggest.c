/* The names close to a mistyped word.
 *
 * The distance is the one of optimal string alignment, worked out row by row in three rows of fixed
 * size; words too long for them are not compared, since nobody mistypes a name of 60 letters by
 * two.
 */
#include "base/suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define WORD_MAX     64
#define DISTANCE_MAX 2
#define PREFIX_MIN   3 /* letters that abbreviate a name that begins with them */

static int least(int a, int b)
{
    return a < b ? a : b;
}

static bool same_letter(char a, char b)
{
    return a == b || (a == '-' && b == '_') || (a == '_' && b == '-');
}

/* The edit distance of a (n bytes) and b (m bytes), both shorter than WORD_MAX. */
static int distance(const char *a, int n, const char *b, int m)
{
    int rows[3][WORD_MAX];
    int *before = rows[0], *above = rows[1], *row = rows[2];
    for (int j = 0; j <= m; j++)
        above[j] = j;
    for (int i = 1; i <= n; i++) {
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int replaced = above[j - 1] + !same_letter(a[i - 1], b[j - 1]);
            row[j] = least(replaced, least(above[j], row[j - 1]) + 1);
            bool swapped = i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                           same_letter(a[i - 2], b[j - 1]);
            if (swapped)
                row[j] = least(row[j], before[j - 2] + 1);
        }
        int *free_row = before;
        before = above;
        above = row;
        row = free_row;
    }
    return above[m];
}

static bool joins_words(char c)
{
    return c == '-' || c == '_';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The length of the common prefix, ignoring case. */
static size_t common_start(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && (lower(a[n]) == lower(b[n]) || (joins_words(a[n]) && joins_words(b[n]))))
        n++;
    return n;
}

/* Returns true if the name has two or more words and `initials` are theirs. */
static bool are_initials(const char *initials, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; name[i]; i++)
        if ((i == 0 || joins_words(name[i - 1])) && lower(initials[n++]) != lower(name[i]))
            return false; /* also at the end of the initials */
    return n > 1 && !initials[n];
}

/* Returns true if the word is the first or the last one of a name of several words, or if one is
 * the initials of the other. One letter abbreviates too much. */
static bool abbreviates(const char *word, const char *name)
{
    size_t n = strlen(word), whole = strlen(name);
    bool first = common_start(word, name) == n && joins_words(name[n]);
    bool last = whole > n && joins_words(name[whole - n - 1]) &&
                strcmp(name + whole - n, word) == 0;
    return n > 1 && (first || last || are_initials(word, name) || are_initials(name, word));
}

/* The distance of two names that are close, 0 for an abbreviation, or -1. */
static int closeness(const suggest *s, const char *name)
{
    if (abbreviates(s->word, name))
        return 0;
    size_t n = strnlen(s->word, WORD_MAX), m = strnlen(name, WORD_MAX);
    size_t longer = n > m ? n : m, shorter = n > m ? m : n;
    if (longer < WORD_MAX && longer - shorter <= DISTANCE_MAX) {
        int d = distance(s->word, (int)n, name, (int)m);
        if (d <= (longer > 4 ? DISTANCE_MAX : 1) && 2 * d <= (int)longer)
            return d;
    }
    bool begins = n >= PREFIX_MIN && common_start(s->word, name) == n;
    return s->by_first_letters && begins ? DISTANCE_MAX : -1;
}

void suggest_add(suggest *s, const char *name)
{
    int d = s->compared++ < SUGGEST_COMPARED ? closeness(s, name) : -1;
    if (d < 0)
        return;
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->names[i], name) == 0)
            return;
    int at = s->n;
    while (at > 0 && s->distance[at - 1] > d)
        at--;
    if (at == SUGGEST_MAX)
        return;
    if (s->n < SUGGEST_MAX)
        s->n++;
    for (int i = s->n - 1; i > at; i--) {
        s->names[i] = s->names[i - 1];
        s->distance[i] = s->distance[i - 1];
    }
    s->names[at] = name;
    s->distance[at] = d;
}

void suggest_done(const suggest *s, kv_err *e)
{
    char names[SUGGEST_MAX][WORD_MAX];
    for (int i = 0; i < SUGGEST_MAX; i++) {
        char *out = names[i];
        snprintf(out, WORD_MAX, "%s", i < s->n ? s->names[i] : "");
        for (; s->as_methods && *out; out++)
            if (*out == '-')
                *out = '_';
    }
    if (s->n == 1)
        kv_err_hint(e, "did you mean %s?", names[0]);
    else if (s->n == 2)
        kv_err_hint(e, "did you mean %s or %s?", names[0], names[1]);
    else if (s->n)
        kv_err_hint(e, "did you mean %s, %s or %s?", names[0], names[1], names[2]);
}

void suggest_hint(kv_err *e, const char *word, const char *const *names, int n)
{
    suggest s = {.word = word};
    for (int i = 0; i < n; i++)
        if (names[i])
            suggest_add(&s, names[i]);
    suggest_done(&s, e);
}

/* ---- Spelling -------------------------------------------------------------------------------- */

int name_among(const char *word, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, names[i]) == 0)
            return (int)i;
    return -1;
}

bool name_is_word(const char *name, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!name[i] || (name[i] != word[i] && !(joins_words(name[i]) && joins_words(word[i]))))
            return false;
    return !name[n];
}

unsigned name_words_in(const char *text, const char *const *names)
{
    unsigned seen = 0;
    for (size_t n; *text; text += n ? n : 1) {
        for (n = 0; isalnum((unsigned char)text[n]) || text[n] == '_';)
            n++;
        for (unsigned i = 0; names[i] && n > 0; i++)
            if (strncmp(names[i], text, n) == 0 && !names[i][n])
                seen |= 1u << i;
        n = *text == '#' ? strcspn(text, "\n") : n;
    }
    return seen;
}

void name_put(buf *out, const char *name, size_t n, char sign)
{
    for (size_t i = 0; i < n; i++)
        buf_char(out, joins_words(name[i]) ? sign : name[i]);
}
