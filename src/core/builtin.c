/* Finding an optimizer by name. */
#include "core/builtin.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/suggest.h"

int builtin_rule(kv_rule **out, const char *name, kv_err *e)
{
    char file[64];
    for (const builtin_text *t = builtin_texts; t->name; t++) {
        if (strcasecmp(t->name, name) != 0)
            continue;
        snprintf(file, sizeof file, "%s.kvu", t->name);
        return kv_rule_new(out, t->text, file, 1, 1, e);
    }
    kv_err_set(e, KV_E_USAGE, "there is no optimizer `%s`", name);
    suggest near = {.word = name};
    for (const builtin_text *t = builtin_texts; t->name; t++)
        suggest_add(&near, t->name);
    return suggest_done(&near, e);
}

const char *kv_optimizer_text(int i, const char **name)
{
    const builtin_text *t = builtin_texts;
    if (i < 0)
        return NULL;
    while (i-- > 0 && t->name)
        t++;
    if (name)
        *name = t->name;
    return t->text;
}
