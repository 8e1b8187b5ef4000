/* What is in a checkpoint: names, dtypes, shapes and bytes, from its header alone. */
#include <fnmatch.h>

#include "checkpoint/checkpoint.h"
#include "checkpoints/checkpoints.h"
#include "eval/eval.h"
#include "eval/eval_words.h"
#include "session/unit.h"

static bool matches_one(const char *name, const words *globs)
{
    for (int64_t i = 0; i < globs->n; i++)
        if (fnmatch(globs->items[i].text, name, 0) == 0)
            return true;
    return false;
}

/* Every pattern must match a name: else it is most likely mistyped. */
static int check_globs(session *s, const checkpoint *file, const words *globs, kv_err *e)
{
    for (int64_t i = 0; i < globs->n; i++) {
        words one = {&globs->items[i], 1, 1};
        bool found = false;
        for (int64_t k = 0; k < checkpoint_count(file) && !found; k++)
            found = matches_one(checkpoint_at(file, k)->name, &one);
        if (!found)
            return unit_err(s, globs->items[i].at, e, KV_E_KEY, "no name matches \"%s\"",
                            globs->items[i].text);
    }
    return KV_OK;
}

static int add_row(rows *table, const tensor_info *t, kv_err *e)
{
    kv_key key = {.name = t->name};
    int code;
    if ((code = rows_add_key(table, key, e)) ||
        (code = rows_add_text(table, tensor_type_name(t->type), e)) ||
        (code = rows_add_shape(table, t->ndim, t->shape, e)))
        return code;
    return rows_add(table, value_int(t->bytes), e);
}

int cmd_ls(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column columns[] = {
        {"key", "key"}, {"dtype", "dtype"}, {"shape", "shape"}, {"bytes", "bytes"}};
    rows table = {columns, 4, NULL, 0, 0};
    words globs = {0}, excluded = {0};
    checkpoint *file = NULL;
    checkpoint_options options = {.weights = true};
    buf text = {0};
    const char *path = eval_word(s, call->kid[0], "a path", out, e);
    if (!path || eval_words(s, call->kid[1], "a pattern", out, &globs, e) ||
        eval_option_words(s, call, "exclude", "a pattern", out, &excluded, e))
        return e->code;
    int code = checkpoint_open(&file, path, &options, e);
    if (code)
        return unit_at(s, call->kid[0], e);
    code = check_globs(s, file, &globs, e);
    for (int64_t i = 0; i < checkpoint_count(file) && code == KV_OK; i++) {
        const char *name = checkpoint_at(file, i)->name;
        if ((globs.n == 0 || matches_one(name, &globs)) && !matches_one(name, &excluded))
            code = add_row(&table, checkpoint_at(file, i), e);
    }
    checkpoint_close(file);
    return result_table(out, &text, &table, code, e);
}
