/* Merges by their names. */
#include "merge/merge_texts.h"

#include <stdbool.h>
#include <stddef.h>
#include <strings.h>

#include "base/suggest.h"

/* The letter that stands for all that are alike. */
static char plain(char c)
{
    return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

const merge_text *merge_text_find(const char *name)
{
    for (const merge_text *t = merge_texts; t->name; t++) {
        size_t i = 0;
        while (name[i] && plain(name[i]) == t->name[i])
            i++;
        if (!name[i] && !t->name[i])
            return t;
    }
    return NULL;
}

void merge_text_suggest(const char *word, kv_err *e)
{
    bool is_mean = strcasecmp(word, "mean") == 0 || strcasecmp(word, "avg") == 0;
    suggest near = {.word = is_mean ? "average" : word};
    for (const merge_text *t = merge_texts; t->name; t++)
        suggest_add(&near, t->name);
    suggest_done(&near, e);
}
