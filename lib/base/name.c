/* One comparison, and one spelling. */
#include "base/name.h"

#include <string.h>

static bool is_joint(char c)
{
    return c == '-' || c == '_';
}

bool name_is_word(const char *name, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!name[i] || (name[i] != word[i] && !(is_joint(name[i]) && is_joint(word[i]))))
            return false;
    return !name[n];
}

void name_put(buf *out, const char *name, size_t n, char sign)
{
    for (size_t i = 0; i < n; i++)
        buf_char(out, is_joint(name[i]) ? sign : name[i]);
}
