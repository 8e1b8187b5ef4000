/* `apply`: patches applied to a checkpoint, into another one or in its place. */
#include <string.h>

#include "base/mem.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/outputs.h"
#include "checkpoints/patches.h"
#include "session/unit.h"
#include "syntax/effect.h"
#include "term/progress.h"

/* The words of the command, read. */
typedef struct request {
    words all;      /* patches, and behind them the checkpoint */
    word base;      /* that */
    const char *to; /* NULL: in place */
    const ast *at;  /* of --out, or --in-place */
    checkpoint_out_options how;
} request;

static int read_words(session *s, const ast *call, result *out, request *r, kv_err *e)
{
    int code = eval_words(s, call->kid[0], "a path", out, &r->all, e);
    if (code)
        return code;
    if (r->all.n < 2) {
        unit_err(s, call, e, KV_E_USAGE, "a patch and a checkpoint are wanted");
        return kv_err_hint(e, "apply P A --out B: the checkpoint stands behind the patches"),
               KV_E_USAGE;
    }
    r->base = r->all.items[r->all.n - 1];
    const ast *in_place = command_option_of(call, "in-place");
    r->at = command_option_of(call, "out");
    if (in_place && r->at)
        return unit_err(s, r->at, e, KV_E_USAGE, "--out or --in-place, not both");
    if (!in_place && !r->at) {
        unit_err(s, call, e, KV_E_USAGE, "nothing says where the result goes");
        return kv_err_hint(e, "--out B, or --in-place"), KV_E_USAGE;
    }
    if (in_place && strcmp(r->base.text, "-") == 0) {
        unit_err(s, r->base.at, e, KV_E_USAGE, "stdin has no place where it can be changed");
        return kv_err_hint(e, "--out B"), KV_E_USAGE;
    }
    if (in_place) {
        r->at = in_place;
        return KV_OK;
    }
    r->to = eval_option_word(s, call, "out", "a path", out, e);
    return r->to ? KV_OK : e->code;
}

static int read_output(session *s, const ast *call, result *out, request *r, kv_err *e)
{
    const char *to = r->to ? r->to : r->base.text;
    int code = out_options_read(s, call, to, out, &r->how, e);
    if (code)
        return code;
    if (r->to && !checkpoint_out_is_path(r->to)) {
        unit_err(s, r->at, e, KV_E_USAGE, "\"%s\" does not end as a file to write", r->to);
        return kv_err_hint(e, OUTPUT_ENDINGS), KV_E_USAGE;
    }
    return safe_write(s, to, e) ? unit_at(s, r->at, e) : KV_OK;
}

/* Gives an error its place: the word of the file that it is about, or else `otherwise`. */
static int at_word(const session *s, const request *r, const ast *otherwise, kv_err *e)
{
    const ast *about = eval_words_about(&r->all, e);
    return unit_at(s, about ? about : otherwise, e);
}

static int apply_to(session *s, const ast *call, request *r, const patches *p, patch_misfits *wrong,
                    result *out, kv_err *e)
{
    const patch_options o = {.progress = progress_bytes, .check_only = s->dry_run,
                             .unsynced = s->writes_unsynced};
    const checkpoint_options weights = {.weights = true};
    checkpoint *a = NULL;
    folder_files beside = {0};
    if (checkpoint_open(&a, r->base.text, &weights, e))
        return unit_at(s, r->base.at, e);
    folder_files_plan(call, r->to, a, NULL, &beside, &r->how);
    progress_begin("apply", 0, PROGRESS_BYTES);
    int code = patch_apply(r->to, p->items, p->n, a, &r->how, &o, wrong, e);
    progress_end();
    beside.from = o.check_only ? NULL : beside.from;
    code = folder_files_tell(s, call, &beside, out, code, e);
    checkpoint_close(a);
    return code;
}

static int apply_in_place(session *s, const request *r, const patches *p, patch_misfits *wrong,
                          kv_err *e)
{
    const patch_options o = {.progress = progress_bytes, .check_only = s->dry_run,
                             .unsynced = s->writes_unsynced};
    patch_place place = PATCH_IN_PLACE;
    progress_begin("apply", 0, PROGRESS_BYTES);
    int code = patch_apply_in_place(r->base.text, p->items, p->n, r->how.shard_bytes, &o, &place,
                                    wrong, e);
    progress_end();
    if (!code && place == PATCH_ALREADY)
        session_note(s, "%s is what %s makes already", r->base.text,
                     patch_name(p->items[p->n - 1]));
    else if (!code)
        session_would(s, place == PATCH_IN_PLACE ? "change" : "replace", r->base.text);
    return code ? at_word(s, r, r->base.at, e) : KV_OK;
}

static int apply_words(session *s, const ast *call, rows *table, result *out, kv_err *e)
{
    request r = {0};
    patches p = {0};
    patch_misfits wrong = {0};
    int code = read_words(s, call, out, &r, e);
    if (!code && !(code = read_output(s, call, out, &r, e)) &&
        !(code = patches_open(s, &r.all, r.all.n - 1, &p, e)))
        code = patches_refuse(&wrong, table,
                              r.to ? apply_to(s, call, &r, &p, &wrong, out, e)
                                   : apply_in_place(s, &r, &p, &wrong, e),
                              out, e);
    if (!code && !out->refusal && r.to)
        session_would(s, "write", r.to);
    patch_misfits_release(&wrong);
    patches_release(&p);
    return code ? at_word(s, &r, r.at ? r.at : call, e) : KV_OK;
}

int cmd_apply(session *s, const ast *call, result *out, kv_err *e)
{
    rows table = patches_table();
    return patches_end(&table, apply_words(s, call, &table, out, e), out, e);
}
