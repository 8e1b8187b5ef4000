/* The names close to a mistyped word.
 *
 * The distance is the one of optimal string alignment, worked out row by row in three rows of fixed
 * size; words too long for them are not compared, since nobody mistypes a name of 60 letters by
 * two.
 */
#include "base/suggest.h"

#include <string.h>

#define WORD_MAX     64
#define DISTANCE_MAX 2

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

/* Returns true if the word is the first or the last one of a name of several words, or has the
 * initials of all. One letter abbreviates too much. */
static bool abbreviates(const char *word, const char *name)
{
    size_t n = strlen(word), whole = strlen(name), first = 0, initials = 0;
    bool last = whole > n && joins_words(name[whole - n - 1]) &&
                strcmp(name + whole - n, word) == 0;
    bool in_initials = true;
    while (first < n && (lower(word[first]) == lower(name[first]) ||
                         (joins_words(word[first]) && joins_words(name[first]))))
        first++;
    for (size_t i = 0; name[i] && in_initials; i++)
        if (i == 0 || joins_words(name[i - 1]))
            in_initials = lower(word[initials++]) == lower(name[i]); /* unlike at the end */
    return n > 1 &&
           (last || (first == n && joins_words(name[n])) || (in_initials && initials == n));
}

/* The distance of two names that are close, 0 for an abbreviation, or -1. */
static int closeness(const char *a, const char *b)
{
    if (abbreviates(a, b))
        return 0;
    size_t n = strnlen(a, WORD_MAX), m = strnlen(b, WORD_MAX);
    size_t longer = n > m ? n : m, shorter = n > m ? m : n;
    if (longer >= WORD_MAX || longer - shorter > DISTANCE_MAX)
        return -1;
    int d = distance(a, (int)n, b, (int)m);
    return d <= (longer > 4 ? DISTANCE_MAX : 1) && 2 * d <= (int)longer ? d : -1;
}

void suggest_add(suggest *s, const char *name)
{
    int d = closeness(s->word, name);
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

int suggest_done(const suggest *s, kv_err *e)
{
    switch (s->n) {
    case 0:
        return e ? e->code : KV_OK;
    case 1:
        return kv_err_hint(e, "did you mean %s?", s->names[0]);
    case 2:
        return kv_err_hint(e, "did you mean %s or %s?", s->names[0], s->names[1]);
    default:
        return kv_err_hint(e, "did you mean %s, %s or %s?", s->names[0], s->names[1], s->names[2]);
    }
}

int suggest_hint(kv_err *e, const char *word, const char *const *names, int n)
{
    suggest s = {.word = word};
    for (int i = 0; i < n; i++)
        if (names[i])
            suggest_add(&s, names[i]);
    return suggest_done(&s, e);
}
