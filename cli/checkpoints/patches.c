/* Patches as arguments, and the answer when they do not fit. */
#include "checkpoints/patches.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "session/unit.h"

int patches_open(session *s, const words *w, int64_t n, patches *p, kv_err *e)
{
    if (!(p->items = mem_zalloc(n, sizeof *p->items, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++, p->n++)
        if (patch_open(&p->items[i], w->items[i].text, e))
            return unit_at(s, w->items[i].at, e);
    return KV_OK;
}

void patches_release(patches *p)
{
    for (int i = 0; i < p->n; i++)
        patch_close(p->items[i]);
    mem_free(p->items);
}

int patches_check_place(const session *s, const word *to, const checkpoint *from, kv_err *e)
{
    for (int i = 0; i < checkpoint_nfiles(from); i++) {
        const char *file = checkpoint_file(from, i);
        if (!file_is_same(to->text, file))
            continue;
        unit_err(s, to->at, e, KV_E_USAGE, "the patch would take the place of \"%s\"", file);
        return kv_err_hint(e, "a patch is a file of its own; apply makes a checkpoint of both"),
               KV_E_USAGE;
    }
    return KV_OK;
}

rows patches_table(void)
{
    static const rows_column columns[] = {{"key", "key"}, {"state", "state"}};
    return (rows){columns, 2, NULL, 0, 0};
}

int patches_end(rows *table, int code, result *out, kv_err *e)
{
    buf text = {0};
    return table->n == 0 ? result_text(out, &text, code, e)
                         : result_table(out, &text, table, code, e);
}

/* "…: 3 of 120 keys differ, such as "w"": which file it is stands in front. */
static int answer(const patch_misfits *wrong, result *out, kv_err *e)
{
    kv_err why = *e;
    *e = (kv_err){0};
    return result_answer(out, false, e, "%s: %lld of %lld keys %s, such as \"%.*s\"", why.text,
                         (long long)wrong->n, (long long)wrong->keys,
                         wrong->n == 1 ? "differs" : "differ",
                         (int)utf8_cut(wrong->items[0].name, strlen(wrong->items[0].name), 80),
                         wrong->items[0].name);
}

int patches_refuse(const patch_misfits *wrong, rows *table, int code, result *out, kv_err *e)
{
    if (code != KV_E_ASSERT || wrong->n == 0)
        return code;
    code = answer(wrong, out, e);
    for (int64_t i = 0; i < wrong->n && !code; i++) {
        const char *name = wrong->items[i].name; /* goes with the files */
        name = arena_text(&out->names, name, strlen(name), e);
        code = name ? rows_add_key(table, (kv_key){.name = name}, e) : KV_E_MEMORY;
        if (!code)
            code = rows_add_text(table, wrong->items[i].why, e);
    }
    return code;
}
