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
    r->each = mem_zalloc(r->given.n, sizeof *r->each, e);
    r->matched = mem_zalloc(r->given.n, sizeof *r->matched, e);
    if (!r->each || !r->matched)
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
    mem_free(r->matched);
    *r = (renames){0};
}

const char *renames_apply(renames *r, const session *s, const char *name, arena *names, kv_err *e)
{
    buf texts[2] = {0};
    const char *kept = name, *last = name;
    int code = KV_OK;
    for (int64_t i = 0; i < r->given.n && code == KV_OK; i++) {
        int64_t replaced = 0;
        buf_clear(&texts[i % 2]);
        if ((code = renaming_apply(r->each[i], last, &texts[i % 2], &replaced, e)))
            code = unit_at(s, r->given.items[i].at, e);
        r->matched[i] |= replaced > 0;
        if (r->nseen < RENAMES_SEEN && i == 0)
            r->seen[r->nseen++] = name;
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

int renames_check(const renames *r, const session *s, kv_err *e)
{
    buf names = {0};
    for (int64_t i = 0; i < r->given.n; i++) {
        if (r->matched[i])
            continue;
        unit_err(s, r->given.items[i].at, e, KV_E_KEY, "`%.64s` matches no name",
                 r->given.items[i].text);
        for (int k = 0; k < r->nseen; k++)
            buf_printf(&names, "%s\"%.60s\"", k ? ", " : "", r->seen[k]);
        if (r->nseen > 0)
            kv_err_hint(e, "the names begin with %s", buf_text(&names));
        buf_release(&names);
        return e->code;
    }
    return KV_OK;
}
