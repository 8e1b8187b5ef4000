/* Patterns of keys, by fnmatch: * matches dots and slashes too. */
#include "checkpoints/choose.h"

#include <fnmatch.h>
#include <string.h>

#include "base/mem.h"
#include "eval/eval.h"
#include "session/unit.h"

int choose_read(session *s, const ast *call, const ast *globs, result *out, choice *c, kv_err *e)
{
    int code = eval_words(s, globs, "a pattern", out, &c->globs, e);
    if (code == KV_OK)
        code = eval_option_words(s, call, "exclude", "a pattern", out, &c->excluded, e);
    if (code)
        return code;
    size_t patterns = (size_t)(c->globs.n + c->excluded.n);
    c->matched = arena_alloc(&out->names, patterns * sizeof *c->matched, e);
    c->left_out = c->matched ? c->matched + c->globs.n : NULL;
    return c->matched ? KV_OK : KV_E_MEMORY;
}

bool choose_takes(choice *c, const char *key)
{
    bool taken = c->globs.n == 0;
    for (int64_t i = 0; i < c->globs.n; i++) {
        /* All of them are tried, since each must match a key. */
        if ((!taken || !c->matched[i]) && fnmatch(c->globs.items[i].text, key, 0) == 0)
            taken = c->matched[i] = true;
    }
    for (int64_t i = 0; i < c->excluded.n; i++) {
        if ((!taken && c->left_out[i]) || fnmatch(c->excluded.items[i].text, key, 0) != 0)
            continue;
        taken = false;
        c->left_out[i] = true;
    }
    return taken;
}

static int check_matched(const session *s, const words *patterns, const bool *matched, kv_err *e)
{
    for (int64_t i = 0; i < patterns->n; i++) {
        const word *w = &patterns->items[i];
        if (matched[i])
            continue;
        unit_err(s, w->at, e, KV_E_KEY, "no name matches \"%s\"", w->text);
        return strpbrk(w->text, "*?[") ? e->code
                                       : kv_err_hint(e, "a pattern matches whole names: *%s*",
                                                     w->text);
    }
    return KV_OK;
}

int choose_check_excluded(const session *s, const choice *c, kv_err *e)
{
    return check_matched(s, &c->excluded, c->left_out, e);
}

int choose_check(const session *s, const choice *c, kv_err *e)
{
    int rc = check_matched(s, &c->globs, c->matched, e);
    return rc ? rc : choose_check_excluded(s, c, e);
}

int choose_keys(const session *s, choice *c, const checkpoint *from, int64_t **keys, int64_t *n,
                kv_err *e)
{
    int64_t all = checkpoint_count(from);
    int64_t *chosen = mem_alloc(all, sizeof *chosen, e);
    *n = 0;
    if (!chosen)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < all; i++)
        if (choose_takes(c, checkpoint_at(from, i)->name))
            chosen[(*n)++] = i;
    if (choose_check(s, c, e)) {
        mem_free(chosen);
        return e->code;
    }
    *keys = chosen;
    return KV_OK;
}

int choose_check_scales(const ast *call, scales_model m, int file, const tensor_info *t, kv_err *e)
{
    scales found;
    if (command_option_of(call, "raw") || !scales_find(&found, m, file, t))
        return KV_OK;
    return scales_refuse(&found, true, e);
}

int choose_check_all_scales(session *s, const ast *call, const ast *argument, checkpoint *c,
                            const int64_t *keys, int64_t n, kv_err *e)
{
    for (int64_t i = 0; i < n; i++)
        if (keys[i] >= 0 &&
            choose_check_scales(call, (scales_model){&c, 1}, 0, checkpoint_at(c, keys[i]), e))
            return unit_at(s, argument, e);
    return KV_OK;
}

int choose_open(session *s, const ast *argument, bool all, result *out, checkpoint **c, kv_err *e)
{
    const checkpoint_options options = {.weights = !all};
    const char *path = eval_word(s, argument, "a path", out, e);
    if (!path)
        return e->code;
    return checkpoint_open(c, path, &options, e) ? unit_at(s, argument, e) : KV_OK;
}
