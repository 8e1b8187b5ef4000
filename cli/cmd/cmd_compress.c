/* set-gradient-compression. */
#include "base/num.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "eval/optimizer_value.h"
#include "session/unit.h"

/* The threshold as the library takes it, a text. */
static int threshold_text(session *s, const ast *node, buf *out, kv_err *e)
{
    char number[NUM_TEXT_MAX];
    value v;
    int code = eval(s, node, &v, e);
    if (code)
        return code;
    if (v.kind == VALUE_FLOAT) {
        num_repr(number, v.u.number, NUM_BINARY64);
        buf_add(out, number);
    } else if (v.kind == VALUE_INT || v.kind == VALUE_TEXT) {
        value_print(out, v, false);
    } else {
        code = unit_err(s, node, e, KV_E_DTYPE, "a threshold is a number, not %s",
                        value_kind_name(v));
    }
    value_release(&v);
    return code ? code : buf_check(out, e);
}

/* The word that a device store would not take either, or the whole command: then the store or its
 * keys are the reason. */
static const ast *culprit(const ast *call, const ast *threshold, const kv_opt *params, int n)
{
    const ast *const nodes[] = {call->kid[0], threshold};
    const ast *found = call;
    kv *store;
    kv_err unused = {0};
    if (kv_create("device", NULL, 0, &store, &unused))
        return call;
    for (int i = 0; i < n && found == call; i++)
        if (kv_set_gradient_compression(store, params, i + 1, &unused))
            found = nodes[i];
    kv_free(store);
    return found;
}

/* {'type': '2bit', 'threshold': 0.5} in a variable: the parameters by their names. */
static int set_dict(kv *store, value dict, kv_err *e)
{
    rule_params p = {0};
    int code = KV_OK;
    for (int64_t i = 0; i < dict.u.list->n && code == KV_OK; i += 2) {
        value name = dict.u.list->items[i], given = dict.u.list->items[i + 1], text;
        if (name.kind != VALUE_TEXT)
            code = kv_err_set(e, KV_E_DTYPE, "a parameter has a text as its name, not %s",
                              value_kind_name(name));
        else if (given.kind == VALUE_NONE || (given.kind == VALUE_BOOL && !given.u.integer))
            continue;
        else if ((code = optimizer_param_text(&text, given, e)) == KV_OK)
            code = rule_params_add(&p, name.u.text, text, e);
    }
    if (code == KV_OK)
        code = kv_set_gradient_compression(store, p.opts, p.n, e);
    rule_params_release(&p);
    return code;
}

int cmd_set_gradient_compression(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *node = command_option_of(call, "threshold");
    bool pull = command_option_of(call, "pull") != NULL;
    kv *store;
    const char *type;
    buf text = {0};
    const ast *what = call->kid[0];
    const value *held = what->kind == AST_NAME ? session_find(s, what->u.text) : NULL;
    if (session_store(s, &store, e))
        return e->code;
    if (held && held->kind == VALUE_DICT)
        return set_dict(store, *held, e) ? unit_at(s, call, e) : KV_OK;
    if (!(type = eval_word(s, call->kid[0], "a type of compression", out, e)))
        return e->code;
    int code = node ? threshold_text(s, node, &text, e) : KV_OK;
    if (code == KV_OK) {
        kv_opt params[3] = {{"type", type}, {"threshold", buf_text(&text)}};
        int n = node ? 2 : 1;
        params[n] = (kv_opt){"pull", "true"};
        code = kv_set_gradient_compression(store, params, pull ? n + 1 : n, e);
        if (code)
            unit_at(s, code == KV_E_UNSUPPORTED ? call : culprit(call, node, params, n), e);
    }
    buf_release(&text);
    return code;
}
