/* The commands that take keys of a store away: delete, rename. */
#include "cmd/commands.h"
#include "cmd/pairs.h"
#include "eval/eval.h"
#include "out/record.h"
#include "session/show.h"
#include "session/unit.h"

/* The line of -v for a key, as it is before the change: "delete 3: float32 (2, 3) cpu(0)". Nothing
 * is added for a key that is not there. */
static void add_line(buf *out, kv *store, const char *what, const kv_key *key, const kv_key *to)
{
    kv_info info;
    kv_err none = {0};
    char shape[256], ctx[KV_CTX_TEXT];
    if (kv_find(store, key, &info, &none))
        return;
    buf_printf(out, "%s%s ", out->len ? "\n" : "", what);
    show_key(out, info.key);
    if (to) {
        buf_char(out, ' ');
        show_key(out, *to);
    }
    buf_printf(out, ": %s %s %s", kv_dtype_name(info.dtype),
               kv_shape_text(shape, sizeof shape, info.ndim, info.shape),
               kv_ctx_text(ctx, info.ctx));
}

int cmd_delete(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    key_list keys;
    buf lines = {0};
    int code;
    if ((code = session_store(s, &store, e)) ||
        (code = kv_delete(store, NULL, 0, e)) || /* a store that cannot delete says so */
        (code = eval_keys(s, call->kid[0], &keys, e)))
        return unit_at(s, call, e);
    code = record_keys(s, out, keys.keys, keys.n, e);
    for (int64_t i = 0; s->out.verbose && i < keys.n; i++)
        add_line(&lines, store, "delete", &keys.keys[i], NULL);
    if (code == KV_OK && (code = kv_delete(store, keys.keys, keys.n, e))) {
        pairs_suggest(store, e);
        unit_at(s, call->kid[0], e);
    }
    if (code == KV_OK && lines.len > 0)
        session_change(s, buf_text(&lines));
    buf_release(&lines);
    key_list_release(&keys);
    return code;
}

/* The one key of an argument. */
static int one_key(session *s, const ast *node, key_list *key, kv_err *e)
{
    int code = eval_keys(s, node, key, e);
    if (code || key->n == 1)
        return code;
    code = unit_err(s, node, e, KV_E_VALUE, "rename takes one key and its new name, here are %lld",
                    (long long)key->n);
    key_list_release(key);
    return code;
}

static int rename_key(session *s, const ast *call, kv *store, const kv_key *from, const kv_key *to,
                      kv_err *e)
{
    kv_info info;
    kv_err none = {0};
    buf line = {0};
    if (s->out.verbose)
        add_line(&line, store, "rename", from, to);
    int code = kv_rename(store, from, to, e);
    if (code == KV_OK && line.len > 0)
        session_change(s, buf_text(&line));
    buf_release(&line);
    if (code == KV_OK)
        return KV_OK;
    bool is_there = kv_find(store, from, &info, &none) == KV_OK; /* so its new name is wrong */
    if (!is_there)
        pairs_suggest(store, e);
    return unit_at(s, call->kid[is_there], e);
}

int cmd_rename(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    key_list from, to;
    int code;
    if ((code = session_store(s, &store, e)) ||
        (code = kv_delete(store, NULL, 0, e))) /* a store that cannot rename says so */
        return unit_at(s, call, e);
    if ((code = one_key(s, call->kid[0], &from, e)))
        return code;
    if ((code = one_key(s, call->kid[1], &to, e)) == KV_OK) {
        code = record_keys(s, out, (kv_key[]){from.keys[0], to.keys[0]}, 2, e);
        if (code == KV_OK)
            code = rename_key(s, call, store, &from.keys[0], &to.keys[0], e);
        key_list_release(&to);
    }
    key_list_release(&from);
    return code;
}
