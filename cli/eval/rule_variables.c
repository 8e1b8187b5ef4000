/* The parameters with which a rule is set: variables that it reads become some, and so do those of
 * an optimizer as a value, which holds only what it was given; opt.wd looks up the default. */
#include "eval/rule_variables.h"

#include <string.h>

#include "base/num.h"
#include "base/suggest.h"
#include "lang/parse.h"
#include "session/containers.h"
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

int rule_text_of(rule_text *out, const definition *d, arena *a, kv_err *e)
{
    rule_ast *read = NULL;
    TRY(d->rule ? KV_OK : updater_of_def(&read, &d->unit->src, d->node, a, e));
    *out =
        (rule_text){d->unit, d->rule ? d->rule : read, !d->nested && (!d->rule || d->rule->is_def)};
    return KV_OK;
}

static int refuse_variable(const rule_text *r, const rule_param *p, value v, kv_err *e)
{
    source_err(&r->unit->src, p->pos, p->end, e, KV_E_USAGE,
               "`%s` is %s, and a rule reads numbers, texts, true, false and none", p->name,
               value_kind_name(v));
    if (v.kind != VALUE_ARRAY)
        return kv_err_hint(e, "give the rule the number that it needs: x = %s[0]", p->name);
    if (kv_array_size(v.u.box->array) == 1)
        kv_err_hint(e, "%s = float(%s) makes it a number", p->name, p->name);
    return kv_err_hint(e,
                       "push what it makes of the input, or keep a state of arrays: state m = 0");
}

static int refuse_missing(session *s, const rule_text *r, const rule_param *p, kv_err *e)
{
    suggest near = {.word = p->name};
    source_err(&r->unit->src, p->pos, p->end, e, KV_E_USAGE, "a rule knows no name `%s` here",
               p->name);
    if (session_def(s, p->name) >= 0)
        return kv_err_hint(e, "`%s` is a function, and a rule reads numbers", p->name);
    if (rule_hint_other_word(r->rule, p->name, e))
        return e->code;
    for (int64_t i = 0; i < s->globals.n; i++)
        suggest_add(&near, s->globals.items[i].name);
    rule_suggest(r->rule, &near);
    suggest_done(&near, e);
    return kv_err_hint(e, "set the variable before the updater: %s = 0.5", p->name);
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
    TRY(follow_text(&text, found->v, true, e));
    TRY(rule_params_add(to, p->name, text, e));
    return follow_add(s, f, p->name, found, e);
}

int rule_variables_take(session *s, const rule_text *r, rule_params *to, followed_names *f,
                        kv_err *e)
{
    for (int i = 0; i < r->rule->nparams; i++)
        if (!r->rule->params[i].value && !rule_params_has(to, r->rule->params[i].name))
            TRY(take_variable(s, r, &r->rule->params[i], to, f, e));
    return KV_OK;
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

/* ---- Parameters of optimizers as texts ---- */

/* 0=fc_weight,1=fc_bias: the texts and numbers of a dict. */
static int put_pairs(buf *out, value dict, kv_err *e)
{
    dict_settle(dict);
    const value *item = dict.u.list->items;
    for (int64_t i = 0; i < dict_count(dict); i++, item += 2) {
        if (!value_is_scalar(item[1]))
            return kv_err_set(e, KV_E_DTYPE, "a parameter has pairs of numbers and texts, not %s",
                              value_kind_name(item[1]));
        if (i > 0)
            buf_char(out, ',');
        value_print(out, item[0], false);
        buf_char(out, '=');
        value_print(out, item[1], false);
    }
    return KV_OK;
}

int optimizer_param_text(value *out, value v, kv_err *e)
{
    own_buf text = {0}, whole = {0};
    TRY(v.kind == VALUE_ARRAY && kv_array_size(v.u.box->array) == 1 ? value_item(&v, v, e) : KV_OK);
    if (value_is_scalar(v))
        return follow_text(out, v, false, e);
    if (object_is_schedule(v)) { /* factor(step=10, factor=0.9) */
        value_print(&whole, v, true);
        buf_add(&text, optimizer_schedule_of(object_name(v)));
        buf_add(&text, buf_text(&whole) + strlen(object_name(v)));
        text.failed |= whole.failed;
    } else if (v.kind == VALUE_DICT) {
        TRY(put_pairs(&text, v, e));
    } else {
        return kv_err_set(e, KV_E_DTYPE,
                          "a parameter is a number, true, false, none or a text, not %s",
                          value_kind_name(v));
    }
    return value_text_take(out, &text, KV_OK, e);
}

static int add_param(rule_params *p, const char *name, value v, kv_err *e)
{
    value text;
    TRY(optimizer_param_text(&text, v, e));
    return rule_params_add(p, optimizer_own_name(name), text, e);
}

int optimizer_params_add(rule_params *p, value object, kv_err *e)
{
    const value *item = object.u.list->items; /* its name, then those of its parts and these */
    for (int64_t i = 1; i < object.u.list->n; i += 2)
        TRY(add_param(p, item[i].u.text, item[i + 1], e));
    return KV_OK;
}

/* ---- Making one ---- */

/* The optimizer, or sgd with the schedule, is tried in a store that nobody sees. from: the first
 * argument that is a parameter of it. */
static int make(const char *name, const ast *call, const value *args, uint32_t from, value *out,
                kv_err *e)
{
    bool schedule = optimizer_schedule_of(name) != NULL;
    kv *store = NULL;
    rule_params p = {0};
    if (call->n > from && !ast_argument_name(call, from) && !schedule) {
        kv_err_set(e, KV_E_USAGE, "the parameters of an optimizer have names");
        return kv_err_hint(e, "mx.optimizer.%s(learning_rate=0.1); help optimizer %s", name, name);
    }
    int rc = object_new(out, name, call, args, from, e);
    if (!rc)
        rc = schedule ? add_param(&p, "lr_scheduler", *out, e) : optimizer_params_add(&p, *out, e);
    if (!rc && !(rc = kv_create(NULL, NULL, 0, &store, e)))
        rc = kv_set_optimizer(store, schedule ? "sgd" : name, p.opts, p.n, e);
    kv_free(store);
    rule_params_release(&p);
    value_finish(out, rc);
    if (rc == KV_E_USAGE && !schedule)
        kv_err_hint(e, "help optimizer %s lists its parameters", name);
    return rc;
}

/* create_optimizer('adam', learning_rate=0.1) */
static int create(const ast *call, const value *args, value *out, kv_err *e)
{
    const char *first = call->n > 0 ? ast_argument_name(call, 0) : NULL;
    if (call->n == 0 || args[0].kind != VALUE_TEXT || (first && strcmp(first, "name") != 0))
        return kv_err_set(e, KV_E_USAGE, "create needs the name of an optimizer, a text");
    if (!optimizer_text(args[0].u.text)) {
        kv_err_set(e, KV_E_USAGE, "there is no optimizer \"%s\"", args[0].u.text);
        return kv_err_hint(e, "help optimizer lists them");
    }
    return make(args[0].u.text, call, args, 1, out, e);
}

/* ---- Its parts ---- */

/* The default in the head of the optimizer's rule. False when it has no such parameter. */
static bool rule_default(const char *name, const char *param, value *out, kv_err *e)
{
    own_arena nodes = {0};
    const rule_ast *rule = rule_of_text(optimizer_text(name), &nodes);
    bool found = false;
    for (int i = 0; rule && i < rule->nparams && !found; i++)
        if ((found = strcmp(rule->params[i].name, param) == 0))
            value_from_host(out, host_literal(rule->params[i].value), e);
    return found;
}

/* The default of a parameter that all optimizers have. False when there is none. */
static bool common_default(const char *param, value *out)
{
    for (const optimizer_param *p = optimizer_params; p->name; p++) {
        double x;
        if (strcmp(p->name, param) != 0 || p->text)
            continue;
        if (strcmp(param, "learning_rate") == 0)
            *out = value_float(0.01);
        else if (strcmp(p->value, "false") == 0)
            *out = value_bool(false);
        else if (num_parse(p->value, strlen(p->value), NUM_BINARY64, &x, NULL))
            *out = strchr(p->value, '.') ? value_float(x) : value_int((int64_t)x);
        return true;
    }
    return strcmp(param, "lr_scheduler") == 0;
}

static int no_part(value object, const char *name, kv_err *e)
{
    bool sets = strncmp(name, "set_", 4) == 0;
    kv_err_set(e, KV_E_USAGE, "%s has no %s `%s`", value_kind_name(object),
               sets ? "method" : "attribute", name);
    if (strcmp(name, "set_learning_rate") == 0)
        return kv_err_hint(e,
                           "of the one in use: kv.set_optimizer(update=True, learning_rate=0.01)");
    if (strcmp(name, "set_lr_mult") == 0 || strcmp(name, "set_wd_mult") == 0)
        return kv_err_hint(e, "multipliers are set with it: mx.optimizer.SGD(%s='0=0.5,fc_bias=2')",
                           name + 4);
    if (strncmp(name, "update", 6) == 0 || strcmp(name, "create_state") == 0)
        return kv_err_hint(e, "a store updates: kv.set_optimizer(opt); kv.init(0, weight); "
                              "kv.pushpull(0, grad, out=weight)");
    if (!object_is_optimizer(object) && !object_is_schedule(object))
        kv_err_hint(e, strcmp(name, "keys") == 0 ? "keys() lists the keys of the store in use"
                                                 : "its methods are the commands: help");
    return kv_err_hint(e,
                       "kv.set_optimizer(opt); info --states shows what a store counts and keeps");
}

/* opt.lr, opt.momentum, sched.factor */
static int part(value object, const char *name, value *out, kv_err *e)
{
    bool rate = strcmp(name, "lr") == 0 || strcmp(name, "learning_rate") == 0;
    const char *own = rate ? "learning_rate" : name;
    bool optimizer = object_is_optimizer(object);
    const value *given = object_find(object, own), *schedule = object_find(object, "lr_scheduler");
    if (rate && optimizer && schedule && schedule->kind != VALUE_NONE) {
        kv_err_set(e, KV_E_USAGE, "the schedule of this optimizer sets its learning rate");
        return kv_err_hint(e, "info --states shows that of the store in use");
    }
    if (given && given->kind != VALUE_NONE) {
        *out = value_ref(*given);
        return KV_OK;
    }
    if (optimizer && (rule_default(object_name(object), own, out, e) || common_default(own, out)))
        return e->code;
    return no_part(object, name, e);
}

/* ---- Calls ---- */

int optimizer_value_call(const ast *call, const value *args, value *out, kv_err *e)
{
    const char *name = call->u.text;
    if (call->flags & AST_METHOD)
        return call->n == 1 ? part(args[0], name, out, e) : no_part(args[0], name, e);
    if (strcmp(name, "create_optimizer") == 0)
        return create(call, args, out, e);
    if (strcmp(name, "get_updater") != 0)
        return make(name, call, args, 0, out, e);
    if (call->n != 1 || !object_is_optimizer(args[0]))
        return kv_err_set(e, KV_E_USAGE, "get_updater takes an optimizer");
    *out = value_ref(args[0]); /* which _set_updater takes */
    return KV_OK;
}
