/* The commands that ask what a type of store can do, add types, and talk to all of its workers and
 * servers. */
#include "base/mem.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "cmd/explain.h"
#include "syntax/safe.h"
#include "session/unit.h"

int cmd_is_capable(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    value word;
    bool yes = false;
    int code = session_store(s, &store, e);
    if (code || (code = eval_text(s, call->kid[0], "a capability", &word, e)))
        return code;
    code = kv_is_capable(store, word.u.text->text, &yes, e);
    value_release(&word);
    out->v = value_bool(yes);
    return code ? unit_at(s, call->kid[0], e) : KV_OK;
}

/* ---- register ---- */

static bool is_type(const char *name)
{
    const kv_type_ops *ops;
    kv_err unused = {0};
    return kv_find_type(name, &ops, &unused) == KV_OK;
}

/* What can be made now that the plugin is there says what it brings. */
static int brings_no(const char *path, const char *name, const kv_err *why, kv_err *e)
{
    kv_err_set(e, KV_E_NAME, "%s brings no type \"%s\"", path, name);
    return kv_err_hint(e, "%s", why->hint);
}

/* Loads FILE.so, which brings the type unless a base for it is given. */
static int load_plugin(session *s, const ast *file, const char *name, bool brings, kv_err *e)
{
    value path;
    const kv_type_ops *ops;
    kv_err why = {0};
    int code = eval_text(s, file, "the file of a plugin", &path, e);
    if (code)
        return code;
    if ((code = safe_plugin(s, e)) == KV_OK)
        code = kv_load_plugin(path.u.text->text, e);
    if (code == KV_OK && brings && kv_find_type(name, &ops, &why))
        code = brings_no(path.u.text->text, name, &why, e);
    value_release(&path);
    return code ? unit_at(s, file, e) : KV_OK;
}

/* Adds the name, for a base when one is given. */
static int register_name(session *s, const ast *call, const char *name, kv_err *e)
{
    const ast *base = command_option_of(call, "base");
    value of = value_none();
    int code = base ? eval_text(s, base, "a store type", &of, e) : KV_OK;
    if (code)
        return code;
    code = kv_register_name(name, base ? of.u.text->text : NULL, e);
    value_release(&of);
    return code ? unit_at(s, code == KV_E_UNSUPPORTED ? base : call->kid[0], e) : KV_OK;
}

int cmd_register(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *plugin = command_option_of(call, "plugin"), *base = command_option_of(call, "base");
    value name;
    (void)out;
    int code = eval_text(s, call->kid[0], "the name of a store type", &name, e);
    if (code)
        return code;
    const char *text = name.u.text->text;
    if (is_type(text))
        code =
            unit_err(s, call->kid[0], e, KV_E_NAME, "there is a store type \"%s\" already", text);
    if (code == KV_OK && plugin)
        code = load_plugin(s, plugin, text, !base, e);
    if (code == KV_OK && (base || !plugin))
        code = register_name(s, call, text, e);
    value_release(&name);
    return code;
}

/* ---- Workers and servers ---- */

int cmd_barrier(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    int code = session_store(s, &store, e);
    (void)call;
    (void)out;
    return code || !explain_barrier(s, store) ? code : kv_barrier(store, e);
}

int cmd_done(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    int code = session_store(s, &store, e);
    (void)call;
    (void)out;
    return code ? code : kv_done(store, e);
}

int cmd_send_command(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    value body;
    int32_t head;
    int code = session_store(s, &store, e);
    (void)out;
    if (code || (code = eval_int(s, call->kid[0], "the head of a command", &head, e)) ||
        (code = eval_text(s, call->kid[1], "the body of a command", &body, e)))
        return code;
    code = kv_send_command(store, head, body.u.text->text, e);
    value_release(&body);
    return code;
}
