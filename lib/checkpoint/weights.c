/* The tensors and texts of a store's file that are its keys. */
#include "checkpoint/weights.h"

#include <string.h>

#define OURS "kvstore."
#define KEY  "__key__/"

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static bool is_a_store(const checkpoint *c)
{
    for (int64_t i = 0; i < c->ntexts; i++) {
        if (strcmp(c->texts[i].name, OURS "format") == 0)
            return true;
    }
    return false;
}

void weights_only(checkpoint *c)
{
    int64_t n = 0;
    if (!is_a_store(c))
        return;
    for (int64_t i = 0; i < c->ntensors; i++) {
        tensor_info t = c->tensors[i];
        if (begins(t.name, "__state__/") || begins(t.name, "__residual__/"))
            continue;
        if (begins(t.name, KEY))
            t.name += strlen(KEY);
        c->tensors[n++] = t;
    }
    c->ntensors = n;
    n = 0;
    for (int64_t i = 0; i < c->ntexts; i++) {
        if (!begins(c->texts[i].name, OURS))
            c->texts[n++] = c->texts[i];
    }
    c->ntexts = n;
}
