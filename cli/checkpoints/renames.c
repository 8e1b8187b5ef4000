/* Substitutions in names. */
#include "checkpoints/renames.h"

#include <string.h>

#include "base/mem.h"
#include "session/unit.h"

int renames_read(session *s, const ast *call, result *out, renames *r, kv_err *e)
{
    int code = eval_option_words(s, call, "rename", "a substitution", out, &r->given, e);
    if (code)
        return code;
    if (!(r->each = mem_zalloc(r->given.n, sizeof *r->each, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < r->given.n; i++)
        if (renaming_new(&r->each[i], r->given.items[i].text, e))
            return unit_at(s, r->given.items[i].at, e);
    return KV_OK;
}

void renames_release(renames *r)
{
    for (int64_t i = 0; r->each && i < r->given.n; i++)
        renaming_free(r->each[i]);
    mem_free(r->each);
    r->each = NULL;
}

const char *renames_apply(const renames *r, const session *s, const char *name, arena *names,
                          kv_err *e)
{
    buf texts[2] = {0};
    const char *kept = name, *last = name;
    int code = KV_OK;
    for (int64_t i = 0; i < r->given.n && code == KV_OK; i++) {
        buf_clear(&texts[i % 2]);
        code = renaming_apply(r->each[i], last, &texts[i % 2], e);
        last = buf_text(&texts[i % 2]);
    }
    if (code == KV_OK && r->given.n > 0 && !*last && *name)
        code = unit_err(s, r->given.items[0].at, e, KV_E_KEY,
                        "nothing is left of the name \"%.120s\"", name);
    if (code == KV_OK && r->given.n > 0)
        kept = arena_text(names, last, strlen(last), e);
    buf_release(&texts[0]);
    buf_release(&texts[1]);
    return code ? NULL : kept;
}
