/* `patch`: the differences between two checkpoints as a file, or several such files as one. */
#include "base/mem.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/choose.h"
#include "checkpoints/patches.h"
#include "session/unit.h"
#include "syntax/effect.h"
#include "term/progress.h"

/* Adds the row that describes the patch. */
static int add_summary(rows *table, const patch_summary *made, kv_err *e)
{
    static const rows_column columns[] = {{"changed", "changed"},   {"new", "new"},
                                          {"gone", "gone"},         {"same", "same"},
                                          {"elements", "elements"}, {"bytes", "bytes"}};
    const int64_t cells[] = {made->changed, made->added,    made->gone,
                             made->same,    made->elements, made->bytes};
    int code = KV_OK;
    *table = (rows){columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    for (size_t i = 0; i < sizeof cells / sizeof *cells && !code; i++)
        code = rows_add(table, value_int(cells[i]), e);
    return code;
}

static int make(session *s, const words *w, const word *to, patch_summary *made, kv_err *e)
{
    const patch_options o = {.progress = progress_bytes, .unsynced = s->writes_unsynced};
    checkpoint *files[2] = {0};
    int code = KV_OK;
    for (int i = 0; i < 2 && !code; i++) {
        code = choose_open_tensors(s, &w->items[i], &files[i], e);
        code = code ? code : patches_check_place(s, to, files[i], e);
    }
    if (!code && !s->dry_run) {
        progress_begin("patch", 0, PROGRESS_BYTES);
        code = patch_make(to->text, files[0], files[1], &o, made, e);
        progress_end();
    }
    checkpoint_close(files[0]);
    checkpoint_close(files[1]);
    return code;
}

static int join(session *s, const words *w, const word *to, patch_summary *made, rows *table,
                result *out, kv_err *e)
{
    const patch_options o = {.progress = progress_bytes,
                             .check_only = s->dry_run,
                             .unsynced = s->writes_unsynced};
    patch_misfits wrong = {0};
    patches p = {0};
    int code = patches_open(s, w, w->n, &p, e);
    if (!code) {
        progress_begin("patch", 0, PROGRESS_BYTES);
        code = patch_join(to->text, p.items, p.n, &o, made, &wrong, e);
        progress_end();
    }
    code = patches_refuse(&wrong, table, code, out, e);
    patch_misfits_release(&wrong);
    patches_release(&p);
    return code;
}

static int check_words(session *s, const ast *call, const words *w, bool chain, kv_err *e)
{
    if (chain || w->n == 2)
        return KV_OK;
    unit_err(s, w->n > 2 ? w->items[2].at : call, e, KV_E_USAGE,
             "a patch is between two checkpoints, and %lld %s given", (long long)w->n,
             w->n == 1 ? "is" : "are");
    return kv_err_hint(e, "patch A B --out P, or patch --chain P1 P2 --out P"), KV_E_USAGE;
}

/* Everything but the table. */
static int patch_words(session *s, const ast *call, rows *table, result *out, kv_err *e)
{
    words w = {0};
    patch_summary made;
    bool chain = command_option_of(call, "chain") != NULL;
    int code = eval_words(s, call->kid[0], "a path", out, &w, e);
    if (code || (code = check_words(s, call, &w, chain, e)))
        return code;
    word to = {eval_option_word(s, call, "out", "a path", out, e),
               command_option_of(call, "out")};
    if (!to.text)
        return e->code;
    if (safe_write(s, to.text, e))
        return unit_at(s, to.at, e);
    code = chain ? join(s, &w, &to, &made, table, out, e) : make(s, &w, &to, &made, e);
    if (code) {
        const ast *about = eval_words_about(&w, e);
        return unit_at(s, about ? about : to.at, e);
    }
    if (out->refusal || session_would(s, "write", to.text))
        return KV_OK;
    return add_summary(table, &made, e);
}

int cmd_patch(session *s, const ast *call, result *out, kv_err *e)
{
    rows table = patches_table();
    return patches_end(&table, patch_words(s, call, &table, out, e), out, e);
}
