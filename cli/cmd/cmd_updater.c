/* The commands that choose the update of a push: set-updater, set-optimizer. */
#include <string.h>

#include "base/mem.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "eval/optimizer_value.h"
#include "session/object.h"
#include "cmd/help.h"
#include "syntax/optimizer_param.h"
#include "syntax/statement.h"
#include "session/unit.h"

/* Returns true if a parameter of the rule that a command names is a text. */
static bool takes_text(session *s, const ast *call, const char *param)
{
    const ast *what = call->kid[0];
    value name;
    kv_err unused = {0};
    if (!what || what->kind == STMT_RULE)
        return optimizer_takes_text(param, what ? what->u.other : NULL);
    if (eval_text(s, what, "", &name, &unused))
        return false;
    int64_t at = map_get(&s->rules, (kv_key){0, name.u.text});
    bool text = at >= 0 ? optimizer_takes_text(param, s->rule_defs[at].rule)
                        : optimizer_named_takes_text(param, name.u.text);
    value_release(&name);
    return text;
}

/* The value of a parameter: that of its expression, or the word that it can be read as: where the
 * parameter is a text, or where it is no variable, so that the rule says what it takes. */
static int param_value(session *s, const ast *call, const ast *option, value *out, kv_err *e)
{
    const ast *expr = option->kid[0], *word = option->n > 1 ? option->kid[1] : NULL;
    bool plain = word && expr->kind == AST_NAME;
    if (word && ((plain && !session_find(s, expr->u.text)) || takes_text(s, call, option->u.text)))
        return eval(s, word, out, e);
    int code = eval(s, expr, out, e);
    if (code == KV_OK && out->kind == VALUE_ARRAY && kv_array_size(out->u.box->array) == 1) {
        value array = *out;
        code = value_item(out, array, e);
        value_release(&array);
    }
    return code;
}

/* Adds a parameter, as kv_set_rule takes it. */
static int add_param(session *s, const ast *call, const ast *option, optimizer_opts *p, kv_err *e)
{
    value v = value_bool(true);
    int code = option->n == 0 ? KV_OK : param_value(s, call, option, &v, e);
    if (code)
        return code;
    code = optimizer_opts_add(p, option->u.text, v, e);
    value_release(&v);
    return code ? unit_at(s, option->n > 0 ? option->kid[0] : option, e) : KV_OK;
}

/* Every option but the command's own. */
static int params_of(session *s, const ast *call, optimizer_opts *p, kv_err *e)
{
    int code = KV_OK;
    p->n = 0;
    for (uint32_t i = 1; i < call->n && code == KV_OK; i++) {
        const ast *option = call->kid[i];
        if (option->kind != STMT_OPTION || strcmp(option->u.text, "update") == 0)
            continue;
        code = add_param(s, call, option, p, e);
    }
    if (code)
        optimizer_opts_release(p);
    return code;
}

/* Hands the text of a rule, with its place, to the store. */
static int set_rule(kv *store, const unit *u, const rule_ast *rule, const optimizer_opts *p,
                    kv_err *e)
{
    int line, col;
    kv_rule *made = NULL;
    char *text = mem_text(u->src.text + rule->pos, rule->end - rule->pos, e);
    if (!text)
        return KV_E_MEMORY;
    source_locate(&u->src, rule->pos, &line, &col);
    int code = kv_rule_new(&made, text, u->src.name, line, col, e);
    if (code == KV_OK)
        code = kv_set_rule(store, made, p->opts, p->n, e);
    kv_rule_free(made);
    mem_free(text);
    return code;
}

/* An optimizer that a variable holds; the command may add parameters. */
static int set_object(kv *store, value object, const optimizer_opts *p, kv_err *e)
{
    optimizer_opts all = {0};
    int code = optimizer_opts_object(&all, object, e);
    for (int i = 0; i < p->n && code == KV_OK; i++)
        code = optimizer_opts_add(&all, p->opts[i].name, p->texts[i], e);
    if (code == KV_OK)
        code = kv_set_optimizer(store, object_name(object), all.opts, all.n, e);
    optimizer_opts_release(&all);
    return code;
}

/* A rule of the script, an optimizer of the library, or the default. */
static int set_word(session *s, kv *store, const char *word, const optimizer_opts *p, kv_err *e)
{
    int64_t at = map_get(&s->rules, (kv_key){0, word});
    const value *held = session_find(s, word);
    if (at >= 0)
        return set_rule(store, s->rule_defs[at].unit, s->rule_defs[at].rule, p, e);
    if (held && object_is_optimizer(*held))
        return set_object(store, *held, p, e);
    if (strcmp(word, "assign") != 0)
        return kv_set_optimizer(store, word, p->opts, p->n, e);
    return p->n > 0 ? kv_err_set(e, KV_E_USAGE, "assign has no parameters")
                    : kv_set_updater(store, NULL, NULL, NULL, e);
}

static int set_named(session *s, kv *store, const ast *what, const optimizer_opts *p, kv_err *e)
{
    value v;
    int code = eval(s, what, &v, e);
    if (code)
        return code;
    if (v.kind == VALUE_TEXT)
        code = set_word(s, store, v.u.text, p, e);
    else if (object_is_optimizer(v))
        code = set_object(store, v, p, e);
    else
        code = kv_err_set(e, KV_E_DTYPE,
                          "an updater is a rule, an optimizer or the name of one, not %s",
                          value_kind_name(v));
    value_release(&v);
    return code ? unit_at(s, what, e) : KV_OK;
}

/* Words that were taken for the value of a parameter since there is no such variable. */
static void hint_words(session *s, const ast *call, kv_err *e)
{
    for (uint32_t i = 1; i < call->n; i++) {
        const ast *option = call->kid[i], *expr = option->n > 1 ? option->kid[0] : NULL;
        if (e->code == KV_E_DTYPE && expr && expr->kind == AST_NAME &&
            !session_find(s, expr->u.text))
            kv_err_hint(e, "there is no variable `%s`", expr->u.text);
    }
}

int cmd_set_updater(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *what = call->kid[0];
    kv *store;
    optimizer_opts p;
    (void)out;
    int code = session_store(s, &store, e);
    if (code || (code = params_of(s, call, &p, e)))
        return code;
    if (!what)
        code = kv_update_optimizer(store, p.opts, p.n, e);
    else if (what->kind == STMT_RULE)
        code = set_rule(store, s->unit, what->u.other, &p, e);
    else
        code = set_named(s, store, what, &p, e);
    if (what)
        hint_words(s, call, e);
    optimizer_opts_release(&p);
    return code;
}

/* With --update: other parameters for the one in use. */
int cmd_set_optimizer(session *s, const ast *call, result *out, kv_err *e)
{
    bool update = command_option_of(call, "update") != NULL;
    if (update && call->kid[0])
        return unit_err(s, call->kid[0], e, KV_E_USAGE,
                        "--update changes the optimizer in use: no name");
    if (!update && !call->kid[0])
        return unit_err(s, call, e, KV_E_USAGE, "set-optimizer needs a NAME, or --update");
    return cmd_set_updater(s, call, out, e);
}
