/* Variables that a rule reads become parameters of it. */
#include "eval/rule_variables.h"

#include <string.h>

#include "base/suggest.h"
#include "session/session.h"
#include "syntax/rules.h"
#include "vm/rule.h"

int rule_params_add(rule_params *p, const char *name, value text, kv_err *e)
{
    if (p->n == RULE_PARAMS_MAX) {
        value_release(&text);
        return kv_err_set(e, KV_E_USAGE, "a rule has at most %d parameters", RULE_PARAMS_MAX);
    }
    p->texts[p->n] = text;
    p->opts[p->n++] = (kv_opt){name, text.u.text};
    return KV_OK;
}

void rule_params_release(rule_params *p)
{
    for (int i = 0; i < p->n; i++)
        value_release(&p->texts[i]);
}

bool rule_params_has(const rule_params *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (name_is_word(name, p->opts[i].name, strlen(p->opts[i].name)))
            return true;
    return false;
}

int rule_text_of_def(rule_text *out, const definition *d, arena *a, kv_err *e)
{
    rule_ast *rule = NULL;
    int rc = updater_of_def(&rule, &d->unit->src, d->node, a, e);
    *out = (rule_text){d->unit, rule, !d->nested};
    return rc;
}

static int refuse_variable(const rule_text *r, const rule_param *p, value v, kv_err *e)
{
    source_err(&r->unit->src, p->pos, p->end, e, KV_E_USAGE,
               "`%s` is %s, and a rule reads numbers, texts, true, false and none", p->name,
               value_kind_name(v));
    if (v.kind != VALUE_ARRAY)
        return kv_err_hint(e, "give the rule the number that it needs: x = %s[0]", p->name),
               KV_E_USAGE;
    if (kv_array_size(v.u.box->array) == 1)
        kv_err_hint(e, "%s = float(%s) makes it a number", p->name, p->name);
    kv_err_hint(e, "push what it makes of the input, or keep a state of arrays: state m = 0");
    return KV_E_USAGE;
}

static int refuse_missing(session *s, const rule_text *r, const rule_param *p, kv_err *e)
{
    suggest near = {.word = p->name};
    source_err(&r->unit->src, p->pos, p->end, e, KV_E_USAGE, "a rule knows no name `%s` here",
               p->name);
    if (map_get(&s->functions, (kv_key){0, p->name}) >= 0)
        return kv_err_hint(e, "`%s` is a function, and a rule reads numbers", p->name), KV_E_USAGE;
    if (rule_hint_other_word(r->rule, p->name, e))
        return e->code;
    for (int64_t i = 0; i < s->globals.n; i++)
        suggest_add(&near, s->globals.items[i].name);
    rule_suggest(r->rule, &near);
    suggest_done(&near, e);
    return kv_err_hint(e, "set the variable before the updater: %s = 0.5", p->name), KV_E_USAGE;
}

/* Takes the value of the variable that a parameter without a default stands for. */
static int take_variable(session *s, const rule_text *r, const rule_param *p, rule_params *to,
                         followed_names *f, kv_err *e)
{
    variable *found = session_variable(s, p->name, r->globals);
    value text;
    if (!found)
        return rule_gives(p->name) ? follow_add(s, f, p->name, NULL, e)
                                   : refuse_missing(s, r, p, e);
    if (!value_is_scalar(found->v))
        return refuse_variable(r, p, found->v, e);
    int rc = follow_text(&text, found->v, true, e);
    if (rc == KV_OK && (rc = rule_params_add(to, p->name, text, e)) == KV_OK)
        rc = follow_add(s, f, p->name, found, e);
    return rc;
}

int rule_variables_take(session *s, const rule_text *r, rule_params *to, followed_names *f,
                        kv_err *e)
{
    int rc = KV_OK;
    for (int i = 0; i < r->rule->nparams && rc == KV_OK; i++)
        if (!r->rule->params[i].value && !rule_params_has(to, r->rule->params[i].name))
            rc = take_variable(s, r, &r->rule->params[i], to, f, e);
    return rc;
}

typedef struct set_by {
    session *s;
    const rule_text *rule;
    const rule_params *params;
} set_by;

static bool hides(void *arg, const char *name, const char *option)
{
    const set_by *by = arg;
    return session_variable(by->s, name, by->rule->globals) &&
           !(option && rule_params_has(by->params, option));
}

void rule_variables_warn(session *s, const rule_text *r, const rule_params *p)
{
    own_names_warn(s, r->unit, r->rule, hides, &(set_by){s, r, p});
}
