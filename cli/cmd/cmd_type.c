/* The commands that ask what a type of store can do, add types, and talk to all of its workers and
 * servers. */
#include "base/mem.h"
#include "cmd/commands.h"
#include "cmd/explain.h"
#include "eval/eval.h"
#include "session/unit.h"
#include "syntax/effect.h"

int cmd_is_capable(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    const char *word;
    bool yes = false;
    if (session_store(s, &store, e) ||
        !(word = eval_word(s, call->kid[0], "a capability", out, e)))
        return e->code;
    int code = kv_is_capable(store, word, &yes, e);
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

/* The hint lists the types that can be made now, which include those of the plugin. */
static int brings_no(const char *path, const char *name, const kv_err *why, kv_err *e)
{
    kv_err_set(e, KV_E_NAME, "%s brings no type \"%s\"", path, name);
    return kv_err_hint(e, "%s", why->hint), KV_E_NAME;
}

/* Loads FILE.so, which brings the type unless a base for it is given. */
static int load_plugin(session *s, const ast *file, const char *name, bool brings, result *out,
                       kv_err *e)
{
    const kv_type_ops *ops;
    kv_err why = {0};
    const char *path = eval_word(s, file, "the file of a plugin", out, e);
    if (!path)
        return e->code;
    int code = safe_plugin(s, e);
    if (code == KV_OK)
        code = kv_load_plugin(path, e);
    if (code == KV_OK && brings && kv_find_type(name, &ops, &why))
        code = brings_no(path, name, &why, e);
    return code ? unit_at(s, file, e) : KV_OK;
}

/* Adds the name, for a base when one is given. */
static int register_name(session *s, const ast *call, const char *name, result *out, kv_err *e)
{
    const ast *base = command_option_of(call, "base");
    const char *of = base ? eval_word(s, base, "a store type", out, e) : NULL;
    if (base && !of)
        return e->code;
    int code = kv_register_name(name, of, e);
    return code ? unit_at(s, code == KV_E_UNSUPPORTED ? base : call->kid[0], e) : KV_OK;
}

int cmd_register(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *plugin = command_option_of(call, "plugin"), *base = command_option_of(call, "base");
    const char *name = eval_word(s, call->kid[0], "the name of a store type", out, e);
    if (!name)
        return e->code;
    if (is_type(name))
        return unit_err(s, call->kid[0], e, KV_E_NAME, "there is a store type \"%s\" already",
                        name);
    if (plugin && load_plugin(s, plugin, name, !base, out, e))
        return e->code;
    return base || !plugin ? register_name(s, call, name, out, e) : KV_OK;
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

int cmd_send_command(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    const char *body;
    int32_t head;
    if (session_store(s, &store, e) ||
        eval_int32(s, call->kid[0], "the head of a command", &head, e) ||
        !(body = eval_word(s, call->kid[1], "the body of a command", out, e)))
        return e->code;
    return kv_send_command(store, head, body, e);
}
