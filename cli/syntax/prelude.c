/* Finds functions in the table of the prelude. */
#include "syntax/prelude.h"

#include <stddef.h>
#include <string.h>

const char *prelude_name(int i)
{
    return prelude_defs[i].name;
}

const char *prelude_text(const char *name)
{
    for (int i = 0; prelude_name(i); i++)
        if (strcmp(prelude_defs[i].name, name) == 0)
            return prelude_defs[i].text;
    return NULL;
}
