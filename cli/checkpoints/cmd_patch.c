/* Commands on patches: `patch` writes the differences between two checkpoints as a file, or
 * several such files as one; `apply` puts patches into another checkpoint or in its place. */
#include "checkpoints/checkpoints.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "checkpoints/choose.h"
#include "checkpoints/outputs.h"
#include "session/unit.h"
#include "syntax/effect.h"
#include "term/terminal.h"

/* ---- Patches as arguments ---- */

/* Opens n patches. Errors: those of patch_open, at the word; memory. */
static int patches_open(session *s, const words *w, int64_t n, patches *p, kv_err *e)
{
    if (!(p->items = mem_zalloc(n, sizeof *p->items, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++, p->n++)
        if (patch_open(&p->items[i], w->items[i].text, e))
            return unit_at(s, w->items[i].at, e);
    return KV_OK;
}

static void patches_release(patches *p)
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
        return kv_err_hint(e, "a patch is a file of its own; apply makes a checkpoint of both");
    }
    return KV_OK;
}

/* Ends a command with its table, or without a text where the table is empty. */
static int patches_end(rows *table, int rc, result *out, kv_err *e)
{
    buf text = {0};
    return table->n == 0 ? result_text(out, &text, rc, e)
                         : result_table(out, &text, table, rc, e);
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

/* When code is an error that `wrong` explains, the answer is no: its keys become the table of the
 * result, and e is cleared; else returns code. */
static int patches_refuse(const patch_misfits *wrong, rows *table, int rc, result *out, kv_err *e)
{
    static const rows_column columns[] = {{"key", "key"}, {"state", "state"}};
    if (rc != KV_E_ASSERT || wrong->n == 0)
        return rc;
    TRY(answer(wrong, out, e));
    *table = (rows){columns, 2, NULL, 0, 0};
    for (int64_t i = 0; i < wrong->n; i++) {
        const char *name = wrong->items[i].name; /* goes with the files */
        name = arena_text(&out->names, name, strlen(name), e);
        TRY(name ? rows_add_key(table, (kv_key){.name = name}, e) : KV_E_MEMORY);
        TRY(rows_add_text(table, wrong->items[i].why, e));
    }
    return KV_OK;
}

/* ---- patch ---- */

/* Adds the row that describes the patch. */
static int add_summary(rows *table, const patch_summary *made, kv_err *e)
{
    static const rows_column columns[] = {{"changed", "changed"},   {"new", "new"},
                                          {"gone", "gone"},         {"same", "same"},
                                          {"elements", "elements"}, {"bytes", "bytes"}};
    const int64_t cells[] = {made->changed, made->added,    made->gone,
                             made->same,    made->elements, made->bytes};
    *table = (rows){columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        TRY(rows_add(table, value_int(cells[i]), e));
    return KV_OK;
}

static int make(session *s, const words *w, const word *to, patch_summary *made, kv_err *e)
{
    const patch_options o = {.progress = progress_bytes, .unsynced = s->writes_unsynced};
    own_checkpoint *a = NULL, *b = NULL;
    TRY(choose_open_tensors(s, &w->items[0], &a, e));
    TRY(patches_check_place(s, to, a, e));
    TRY(choose_open_tensors(s, &w->items[1], &b, e));
    TRY(patches_check_place(s, to, b, e));
    if (s->dry_run)
        return KV_OK;
    return PROGRESS("patch", patch_make(to->text, a, b, &o, made, e));
}

static int join(session *s, const words *w, const word *to, patch_summary *made, rows *table,
                result *out, kv_err *e)
{
    const patch_options o = {.progress = progress_bytes,
                             .check_only = s->dry_run,
                             .unsynced = s->writes_unsynced};
    OWN(patches_release) patches p = {0};
    own_misfits wrong = {0};
    TRY(patches_open(s, w, w->n, &p, e));
    int rc = PROGRESS("patch", patch_join(to->text, p.items, p.n, &o, made, &wrong, e));
    return patches_refuse(&wrong, table, rc, out, e);
}

static int check_words(session *s, const ast *call, const words *w, bool chain, kv_err *e)
{
    if (chain || w->n == 2)
        return KV_OK;
    unit_err(s, w->n > 2 ? w->items[2].at : call, e, KV_E_USAGE,
             "a patch is between two checkpoints, and %lld %s given", (long long)w->n,
             w->n == 1 ? "is" : "are");
    return kv_err_hint(e, "patch A B --out P, or patch --chain P1 P2 --out P");
}

/* Everything but the table. */
static int patch_words(session *s, const ast *call, rows *table, result *out, kv_err *e)
{
    words w = {0};
    patch_summary made;
    bool chain = command_option_of(call, "chain") != NULL;
    TRY(eval_words(s, call->kid[0], "a path", out, &w, e));
    TRY(check_words(s, call, &w, chain, e));
    word to = {.text = eval_option_word(s, call, "out", "a path", out, e),
               .at = command_option_of(call, "out")};
    if (!to.text)
        return e->code;
    if (safe_write(s, to.text, e))
        return unit_at(s, to.at, e);
    int rc = chain ? join(s, &w, &to, &made, table, out, e) : make(s, &w, &to, &made, e);
    if (rc)
        return eval_words_at(s, &w, to.at, e);
    if (out->refusal || session_would(s, "write", to.text))
        return KV_OK;
    return add_summary(table, &made, e);
}

int cmd_patch(session *s, const ast *call, result *out, kv_err *e)
{
    rows table = {0};
    return patches_end(&table, patch_words(s, call, &table, out, e), out, e);
}

/* ---- apply ---- */

/* The words of the command, read. */
typedef struct request {
    words all; /* patches, and behind them the checkpoint */
    word base; /* that */
    target o;  /* to.at: --out, or --in-place, where to is the base */
    bool in_place;
} request;

static int read_words(request *r, kv_err *e)
{
    target *o = &r->o;
    TRY(eval_words(o->s, o->call->kid[0], "a path", o->out, &r->all, e));
    if (r->all.n < 2) {
        unit_err(o->s, o->call, e, KV_E_USAGE, "a patch and a checkpoint are wanted");
        return kv_err_hint(e, "apply P A --out B: the checkpoint stands behind the patches");
    }
    r->base = r->all.items[r->all.n - 1];
    const ast *in_place = command_option_of(o->call, "in-place");
    r->in_place = in_place != NULL;
    o->to =
        (word){.text = r->base.text, .at = in_place ? in_place : command_option_of(o->call, "out")};
    if (in_place && strcmp(r->base.text, "-") == 0) {
        unit_err(o->s, r->base.at, e, KV_E_USAGE, "stdin has no place where it can be changed");
        return kv_err_hint(e, "--out B");
    }
    if (!in_place && !(o->to.text = eval_option_word(o->s, o->call, "out", "a path", o->out, e)))
        return e->code;
    TRY(target_read_place(o, e));
    if (!in_place)
        return target_check_path(o, e);
    return safe_write(o->s, o->to.text, e) ? unit_at(o->s, o->to.at, e) : KV_OK;
}

static int apply_to(request *r, const patches *p, const patch_options *how, patch_misfits *wrong,
                    kv_err *e)
{
    own_checkpoint *a = NULL;
    target *o = &r->o;
    TRY(choose_open_word(o->s, &r->base, false, &a, e));
    target_plan_files(o, a);
    int rc = PROGRESS("apply", patch_apply(o->to.text, p->items, p->n, a, &o->how, how, wrong, e));
    o->beside.from = how->check_only ? NULL : o->beside.from;
    return target_release(o, rc, e);
}

static int apply_in_place(request *r, const patches *p, const patch_options *how,
                          patch_misfits *wrong, kv_err *e)
{
    session *s = r->o.s;
    patch_place place = PATCH_IN_PLACE;
    int rc = PROGRESS("apply", patch_apply_in_place(r->base.text, p->items, p->n,
                                                    r->o.how.shard_bytes, how, &place, wrong, e));
    if (!rc && place == PATCH_ALREADY)
        session_note(s, "%s is what %s makes already", r->base.text,
                     patch_name(p->items[p->n - 1]));
    else if (!rc)
        session_would(s, place == PATCH_IN_PLACE ? "change" : "replace", r->base.text);
    return rc ? eval_words_at(s, &r->all, r->base.at, e) : KV_OK;
}

static int apply_words(request *r, rows *table, kv_err *e)
{
    session *s = r->o.s;
    const patch_options how = {
        .progress = progress_bytes, .check_only = s->dry_run, .unsynced = s->writes_unsynced};
    OWN(patches_release) patches p = {0};
    own_misfits wrong = {0};
    TRY(read_words(r, e));
    TRY(patches_open(s, &r->all, r->all.n - 1, &p, e));
    int rc = (r->in_place ? apply_in_place : apply_to)(r, &p, &how, &wrong, e);
    TRY(patches_refuse(&wrong, table, rc, r->o.out, e));
    if (!r->o.out->refusal && !r->in_place)
        session_would(s, "write", r->o.to.text);
    return KV_OK;
}

int cmd_apply(session *s, const ast *call, result *out, kv_err *e)
{
    rows table = {0};
    request r = {.o = {.s = s, .call = call, .out = out}};
    int rc = apply_words(&r, &table, e);
    if (rc)
        eval_words_at(s, &r.all, r.o.to.at ? r.o.to.at : call, e);
    return patches_end(&table, rc, out, e);
}
