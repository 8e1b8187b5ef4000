/* The keys that a command on checkpoints works on, and the names that they get. Patterns are by
 * fnmatch: * matches dots and slashes too. */
#include "checkpoints/choose.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "eval/eval.h"
#include "session/unit.h"
#include "term/terminal.h"

/* ---- Keys ---- */

void first_names_add(first_names *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strncmp(f->text[i], name, sizeof *f->text - 1) == 0)
            return; /* several files have it */
    if (f->n < (int)(sizeof f->text / sizeof *f->text))
        snprintf(f->text[f->n++], sizeof *f->text, "%s", name);
}

void first_names_hint(const first_names *f, kv_err *e)
{
    own_buf names = {0};
    for (int i = 0; i < f->n; i++)
        buf_printf(&names, "%s\"%s\"", i ? ", " : "", f->text[i]);
    if (f->n > 0)
        kv_err_hint(e, "the names begin with %s", buf_text(&names));
}

int choose_read(session *s, const ast *call, const ast *globs, result *out, choice *c, kv_err *e)
{
    TRY(eval_words(s, globs, "a pattern", out, &c->globs, e));
    return eval_option_words(s, call, "exclude", "a pattern", out, &c->excluded, e);
}

bool choose_takes(choice *c, const char *key)
{
    bool taken = c->globs.n == 0;
    first_names_add(&c->seen, key);
    /* all of them are tried, since each must match a key */
    for (int64_t i = 0; i < c->globs.n; i++) {
        word *w = &c->globs.items[i];
        if ((!taken || !w->matched) && fnmatch(w->text, key, 0) == 0)
            taken = w->matched = true;
    }
    for (int64_t i = 0; i < c->excluded.n; i++) {
        word *w = &c->excluded.items[i];
        bool matches = (taken || !w->matched) && fnmatch(w->text, key, 0) == 0;
        w->matched |= matches;
        taken &= !matches;
    }
    c->any |= taken;
    return taken;
}

static int check_matched(const session *s, const words *patterns, const first_names *seen,
                         kv_err *e)
{
    for (int64_t i = 0; i < patterns->n; i++) {
        const word *w = &patterns->items[i];
        if (w->matched)
            continue;
        unit_err(s, w->at, e, KV_E_KEY, "no name matches \"%s\"", w->text);
        if (!strpbrk(w->text, "*?["))
            kv_err_hint(e, "a pattern matches whole names: *%s*", w->text);
        first_names_hint(seen, e);
        return e->code;
    }
    return KV_OK;
}

int choose_check(const session *s, const choice *c, kv_err *e)
{
    if (c->goes_on)
        return KV_OK;
    TRY(check_matched(s, &c->globs, &c->seen, e));
    return check_matched(s, &c->excluded, &c->seen, e);
}

int choose_check_some(const session *s, const choice *c, kv_err *e)
{
    TRY(choose_check(s, c, e));
    return c->goes_on || c->excluded.n == 0 || c->any || c->seen.n == 0
               ? KV_OK
               : unit_err(s, c->excluded.items[0].at, e, KV_E_KEY, "every key is excluded");
}

int choose_keys(const session *s, choice *c, const checkpoint *from, int64_t **keys, int64_t *n,
                kv_err *e)
{
    int64_t all = checkpoint_count(from);
    own_mem int64_t *chosen = mem_alloc(all, sizeof *chosen, e);
    *n = 0;
    if (!chosen)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < all; i++)
        if (choose_takes(c, checkpoint_at(from, i)->name))
            chosen[(*n)++] = i;
    TRY(choose_check(s, c, e));
    *keys = chosen;
    chosen = NULL;
    return KV_OK;
}

int choose_decode(session *s, const ast *call, const ast *argument, checkpoint *const *files, int n,
                  tensor_values_choice *choose, void *arg, kv_err *e)
{
    bool raw = command_option_of(call, "raw") != NULL;
    return !raw && tensor_values_decode(files, n, choose, arg, e) ? unit_at(s, argument, e) : KV_OK;
}

void choose_count_decoded(decoded *d, scales_model m, int file, int64_t i, bool reads)
{
    const char *name;
    const checkpoint *c = m.files[file];
    const tensor_info *t = checkpoint_at(c, i);
    if (scales_is_unused(m, t->name) && d->unused++ == 0)
        d->unused_name = t->name;
    if (reads)
        bare_codes_count(&d->bare, c, i);
    d->scales += tensor_values_scales(c, i, &name);
    d->scaled += name != NULL;
    d->blocks += !name && tensor_values_codes(c, i);
    d->name = d->name ? d->name : name;
}

void choose_tell_decoded(session *s, const decoded *d, const char *blocks)
{
    if (d->blocks > 0 && blocks)
        session_note(s, "decoded %lld quantised key%s as %s", (long long)d->blocks,
                     d->blocks == 1 ? "" : "s", blocks);
    if (d->scaled > 0)
        session_note(s, "applied the scales of %lld key%s (%.80s) and left %lld scale key%s out",
                     (long long)d->scaled, d->scaled == 1 ? "" : "s", d->name, (long long)d->scales,
                     d->scales == 1 ? "" : "s");
    if (d->unused > 0)
        session_note(s, "%lld key%s without a weight of codes, and stay%s as %s: %.80s",
                     (long long)d->unused, d->unused == 1 ? " is a scale" : "s are scales",
                     d->unused == 1 ? "s" : "", d->unused == 1 ? "it is" : "they are",
                     d->unused_name);
    bare_codes_tell(s, &d->bare);
}

int choose_check_all_scales(session *s, const ast *call, const ast *argument, checkpoint *c,
                            const int64_t *keys, int64_t n, kv_err *e)
{
    scales found;
    for (int64_t i = 0; i < n && !command_option_of(call, "raw"); i++)
        if (keys[i] >= 0 &&
            scales_find(&found, (scales_model){&c, 1}, 0, checkpoint_at(c, keys[i])) &&
            scales_refuse(&found, true, e))
            return unit_at(s, argument, e);
    return KV_OK;
}

int choose_open(session *s, const ast *argument, bool all, result *out, checkpoint **c, kv_err *e)
{
    const char *path = eval_word(s, argument, "a path", out, e);
    return path ? choose_open_word(s, &(word){.text = path, .at = argument}, all, c, e) : e->code;
}

int choose_open_word(session *s, const word *file, bool all, checkpoint **c, kv_err *e)
{
    const checkpoint_options options = {.weights = !all};
    return checkpoint_open(c, file->text, &options, e) ? unit_at(s, file->at, e) : KV_OK;
}

int choose_open_tensors(session *s, const word *file, checkpoint **c, kv_err *e)
{
    const char *names, *model;
    TRY(choose_open_word(s, file, false, c, e));
    int64_t n = checkpoint_others(*c, &names, &model);
    if (n > 0)
        session_note(s, "left out %lld %s: %s%s", (long long)n,
                     n == 1 ? "entry that is not a tensor" : "entries that are not tensors", names,
                     n > 2 ? ", …" : "");
    return KV_OK;
}

bool choose_tell_training(session *s, const checkpoint *c, int64_t i)
{
    const char *names, *model, *key = checkpoint_at(c, i)->name;
    checkpoint_others(c, &names, &model);
    size_t n = model ? strlen(model) : 0;
    if (!model || (strncmp(key, model, n) == 0 && key[n] == '.'))
        return false;
    session_note(s, "tensors beside the model are kept too, such as %.80s: %s#%s reads the model "
                 "only", key, checkpoint_name(c), model);
    return true;
}

/* ---- Several files --------------------------------------------------------------------------- */

bool choose_ends_as_file(const char *text)
{
    static const char *const endings[] = {".safetensors", ".json", ".npz",   ".npy",
                                          ".kvs",         ".gguf", ".bin",   ".pt",
                                          ".pth",         ".ckpt", ".params"};
    size_t n = strlen(text);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t k = strlen(endings[i]);
        if (n > k && !strpbrk(text, "*?[") && strcmp(text + n - k, endings[i]) == 0)
            return true;
    }
    return false;
}

bool choose_names_file(const char *text)
{
    return choose_ends_as_file(text) || checkpoint_stands(text);
}

/* A file that cannot be read is a part of the answer. */
static bool is_of_file(int rc)
{
    return rc == KV_E_IO || rc == KV_E_FORMAT || rc == KV_E_UNSUPPORTED;
}

/* Adds the rows of a file behind those of the ones before it, with a first column that names it. */
static int add_rows(result *out, const result_file *f, kv_err *e)
{
    const rows *from = &f->given.entries;
    int n = from->ncolumns + 1;
    if (from->columns && !out->entries.columns) {
        rows_column *columns = arena_alloc(&out->names, (size_t)n * sizeof *columns, e);
        if (!columns)
            return KV_E_MEMORY;
        columns[0] = (rows_column){"file", "file"};
        for (int i = 1; i < n; i++) {
            columns[i] = from->columns[i - 1];
            if (strcmp(columns[i].name, "file") == 0) /* one of the files of a checkpoint */
                columns[0].name = columns[0].head = "checkpoint";
        }
        out->entries = (rows){columns, n, NULL, 0, 0};
    }
    for (int64_t i = 0; i < from->n; i++) {
        if (i % from->ncolumns == 0)
            TRY(rows_add_text(&out->entries, f->path, e));
        TRY(rows_add(&out->entries, value_ref(from->cells[i]), e));
    }
    return KV_OK;
}

static int look_at_one(session *s, const ast *call, choose_fn *look, bool all, const word *file,
                       choice *chosen, result *out, buf *text, kv_err *e)
{
    result_file *f = &out->files[out->nfiles++];
    int64_t begun = clock_ns();
    f->path = file->text;
    visible_line(text, f->path, strlen(f->path));
    int rc = look(s, call, file, chosen, &f->given, &f->e);
    if (all && !rc && !f->given.refusal)
        buf_printf(text, ": clean, %lld key%s\n", (long long)chosen->n, chosen->n == 1 ? "" : "s");
    else
        buf_add(text, ":\n");
    f->us = (clock_ns() - begun) / 1000;
    if (rc && !(all && is_of_file(rc))) {
        *e = f->e;
        return rc;
    }
    if (rc) {
        visible_line(text, f->e.text, strlen(f->e.text));
        buf_char(text, '\n');
        return KV_OK;
    }
    buf_add(text, f->given.v.u.text);
    if (f->given.refusal) {
        kv_err_set(&f->e, KV_E_ASSERT, "%s", f->given.refusal);
        unit_at(s, file->at, &f->e);
    }
    return add_rows(out, f, e);
}

/* Answers no if the answer for any file is no, or if a file could not be read. */
static int answer_for_all(result *out, kv_err *e)
{
    const result_file *worst = NULL;
    int64_t no = 0;
    for (int64_t i = 0; i < out->nfiles; i++) {
        const result_file *f = &out->files[i];
        no += f->e.code == KV_E_ASSERT;
        if (f->e.code &&
            (!worst || exit_code_of_error(f->e.code) > exit_code_of_error(worst->e.code)))
            worst = f;
    }
    if (worst && worst->e.code != KV_E_ASSERT)
        out->failure = &worst->e;
    return no > 1 ? result_answer(out, false, e, "%s, the first of %lld files with findings",
                                  worst->e.text, (long long)no)
                  : result_answer(out, !worst, e, "%s", worst ? worst->e.text : "");
}

int choose_each(session *s, const ast *call, choose_fn *look, bool all, result *out, kv_err *e)
{
    words given = {0};
    choice chosen = {0};
    own_buf text = {0};
    int64_t n = 1;
    TRY(eval_words(s, call->kid[0], "a path", out, &given, e));
    if (given.n == 0)
        return unit_err(s, call->kid[0], e, KV_E_USAGE, "the list of files is empty");
    TRY(eval_words(s, call->kid[1], "a pattern", out, &given, e));
    while (n < given.n && choose_names_file(given.items[n].text))
        n++;
    chosen.globs = (words){given.items + n, given.n - n, given.n - n};
    TRY(choose_read(s, call, NULL, out, &chosen, e));
    if (n == 1)
        return look(s, call, &given.items[0], &chosen, out, e);
    if (!(out->files = mem_zalloc(n, sizeof *out->files, e)))
        return KV_E_MEMORY;
    chosen.goes_on = true;
    for (int64_t i = 0; i < n; i++)
        TRY(look_at_one(s, call, look, all, &given.items[i], &chosen, out, &text, e));
    chosen.goes_on = false;
    TRY(choose_check(s, &chosen, e));
    if (all)
        TRY(answer_for_all(out, e));
    return result_text(out, &text, KV_OK, e);
}

/* ---- Names ---- */

int renames_read(session *s, const ast *call, result *out, renames *r, kv_err *e)
{
    TRY(eval_option_words(s, call, "rename", "a substitution", out, &r->given, e));
    r->each = mem_zalloc(r->given.n, sizeof *r->each, e);
    if (!r->each)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < r->given.n; i++)
        if (renaming_new(&r->each[i].by, r->given.items[i].text, e))
            return unit_at(s, r->given.items[i].at, e);
    return KV_OK;
}

void renames_release(renames *r)
{
    for (int64_t i = 0; r->each && i < r->given.n; i++)
        renaming_free(r->each[i].by);
    mem_free(r->each);
    *r = (renames){0};
}

const char *renames_apply(renames *r, const session *s, const char *name, arena *names, kv_err *e)
{
    own_buf even = {0}, odd = {0};
    const char *last = name;
    for (int64_t i = 0; i < r->given.n; i++) {
        int matches = 0;
        buf *to = i % 2 ? &odd : &even;
        buf_clear(to);
        if (renaming_apply(r->each[i].by, last, to, &matches, e))
            return unit_at(s, r->given.items[i].at, e), NULL;
        r->each[i].matched += matches > 0;
        r->each[i].more += matches > 1;
        if (i == 0)
            first_names_add(&r->seen, name);
        last = buf_text(to);
    }
    if (r->given.n == 0)
        return name;
    if (!*last && *name)
        return unit_err(s, r->given.items[0].at, e, KV_E_KEY,
                        "nothing is left of the name \"%.120s\"", name),
               NULL;
    return arena_text(names, last, strlen(last), e);
}

int renames_check(const renames *r, session *s, kv_err *e)
{
    for (int64_t i = 0; i < r->given.n; i++) {
        if (r->each[i].more)
            session_note(s,
                         "`%.64s` replaced only the first match in %lld of %lld names; with g "
                         "behind it, it replaces all",
                         r->given.items[i].text, (long long)r->each[i].more,
                         (long long)r->each[i].matched);
        if (r->each[i].matched)
            continue;
        unit_err(s, r->given.items[i].at, e, KV_E_KEY, "`%.64s` matches no name",
                 r->given.items[i].text);
        first_names_hint(&r->seen, e);
        return e->code;
    }
    return KV_OK;
}
