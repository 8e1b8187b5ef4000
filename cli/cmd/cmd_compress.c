/* set-gradient-compression. */
#include "base/num.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "session/containers.h"
#include "session/unit.h"

#include <string.h>

/* The compression that is asked for: a word or, as MXNet has it, a dict in a variable, and the
 * options. */
typedef struct compression {
    value type, threshold; /* none: not given */
    bool pull;
} compression;

static void compression_release(compression *c)
{
    value_release(&c->type);
    value_release(&c->threshold);
}

/* {'type': '2bit', 'threshold': 0.5} */
static int take_dict(session *s, const ast *node, value dict, compression *out, kv_err *e)
{
    const value_list *l = dict.u.list;
    int code = KV_OK;
    dict_settle(dict);
    for (int64_t i = 0; i < l->n && code == KV_OK; i += 2) {
        const char *key = l->items[i].kind == VALUE_TEXT ? l->items[i].u.text : "";
        if (strcmp(key, "type") == 0)
            out->type = value_ref(l->items[i + 1]);
        else if (strcmp(key, "threshold") == 0)
            out->threshold = value_ref(l->items[i + 1]);
        else if (strcmp(key, "pull") == 0)
            code = eval_truth(l->items[i + 1], &out->pull, e);
        else
            code = unit_err(s, node, e, KV_E_USAGE, "the compression has no parameter `%s`", key);
    }
    return code;
}

static int read_compression(session *s, const ast *call, compression *out, kv_err *e)
{
    const ast *node = call->kid[0], *threshold = command_option_of(call, "threshold");
    value v;
    out->pull = command_option_of(call, "pull") != NULL;
    int code = eval(s, node, &v, e);
    if (code)
        return code;
    if (v.kind == VALUE_DICT) {
        code = take_dict(s, node, v, out, e);
        value_release(&v);
    } else {
        out->type = v;
    }
    if (code == KV_OK && out->type.kind != VALUE_TEXT) {
        code = unit_err(s, node, e, KV_E_DTYPE, "a type of compression is a text, not %s",
                        value_kind_name(out->type));
        kv_err_hint(e, "2bit, 1bit or none; {'type': '2bit', 'threshold': 0.5}");
    }
    if (code == KV_OK && threshold) {
        value_release(&out->threshold);
        code = eval(s, threshold, &out->threshold, e);
    }
    return code;
}

/* The threshold as the library takes it, a text. */
static int threshold_text(session *s, const ast *node, value v, buf *out, kv_err *e)
{
    char number[NUM_TEXT_MAX];
    if (v.kind == VALUE_FLOAT) {
        num_repr(number, v.u.number, NUM_BINARY64);
        buf_add(out, number);
    } else if (v.kind == VALUE_INT || v.kind == VALUE_TEXT) {
        value_print(out, v, false);
    } else {
        return unit_err(s, node, e, KV_E_DTYPE, "a threshold is a number, not %s",
                        value_kind_name(v));
    }
    return buf_check(out, e);
}

/* Where a wrong parameter stands: in its option, else in the first word. The whole command if no
 * parameter is wrong: then the store or its keys are the reason. */
static const ast *culprit(const ast *call, const kv_opt *params, int n, const kv_err *e)
{
    if (e->option == 0 || e->option > n)
        return call;
    const ast *option = command_option_of(call, params[e->option - 1].name);
    return option ? option : call->kid[0];
}

int cmd_set_gradient_compression(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *given = command_option_of(call, "threshold"),
              *node = given ? given : call->kid[0]; /* else it is in a dict */
    compression c = {0};
    kv *store;
    buf text = {0};
    (void)out;
    if (session_store(s, &store, e))
        return e->code;
    int code = read_compression(s, call, &c, e);
    bool threshold = c.threshold.kind != VALUE_NONE;
    if (code == KV_OK && threshold)
        code = threshold_text(s, node, c.threshold, &text, e);
    if (code == KV_OK) {
        kv_opt params[3] = {{"type", c.type.u.text}, {"threshold", buf_text(&text)}};
        int n = threshold ? 2 : 1;
        if (c.pull)
            params[n++] = (kv_opt){"pull", "true"};
        code = kv_set_gradient_compression(store, params, n, e);
        if (code)
            unit_at(s, culprit(call, params, n, e), e);
    }
    buf_release(&text);
    compression_release(&c);
    return code;
}
