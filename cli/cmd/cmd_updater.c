/* The commands that choose the update of a push: set-updater, set-optimizer. */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/suggest.h"
#include "cmd/commands.h"
#include "cmd/help.h"
#include "eval/eval.h"
#include "eval/optimizer_value.h"
#include "eval/rule_options.h"
#include "eval/rule_variables.h"
#include "session/follow.h"
#include "session/object.h"
#include "session/unit.h"
#include "syntax/parse_statement.h"
#include "syntax/rules.h"

/* A command that sets a rule. */
typedef struct setting_rule {
    session *s;
    const ast *call;
} setting_rule;

/* Returns true if a parameter of the rule that a command names is a text. */
static bool takes_text(void *arg, const char *param)
{
    session *s = ((const setting_rule *)arg)->s;
    const ast *what = ((const setting_rule *)arg)->call->kid[0];
    value name;
    kv_err unused = {0};
    if (!what || what->kind == STMT_RULE)
        return optimizer_takes_text(param, what ? what->u.other : NULL);
    if (eval_text(s, what, "", &name, &unused))
        return false;
    int64_t at = map_get(&s->rules, (kv_key){0, name.u.text});
    if (map_get(&s->functions, (kv_key){0, name.u.text}) >= 0) {
        value_release(&name);
        return optimizer_takes_text(param, NULL);
    }
    bool text = at >= 0 ? optimizer_takes_text(param, s->rule_defs[at].rule)
                        : optimizer_named_takes_text(param, name.u.text);
    value_release(&name);
    return text;
}

/* The rates that a command gives, for note_unused. NULL: it gives none. */
typedef struct given_rates {
    session *s;
    const kv_opt *lr, *wd;
} given_rates;

/* --learning-rate as it stands in a command, learning_rate in a call. */
static void note_rate(const given_rates *g, const kv_opt *rate, const char *why)
{
    bool word = strchr(rate->name, '-') || strcmp(rate->name, "wd") == 0;
    session_note(g->s, "%s: %s%s %s is not used", why, word ? "--" : "", rate->name, rate->value);
}

/* Receives the topic "rule". The base rate is the first number of a schedule's text. */
static int compare_rates(void *arg, const kv_field *fields, int n, kv_err *e)
{
    const given_rates *g = arg;
    const char *schedule = field_text(fields, n, "schedule"), *rule = field_text(fields, n, "rule");
    size_t name = strcspn(schedule, "(");
    buf why = {0};
    bool own = name > 0 && (strncmp(schedule, "poly", name) == 0 ||
                            strncmp(schedule, "cosine", name) == 0);
    (void)e;
    if (g->lr && !field_number(fields, n, "uses_lr")) {
        buf_printf(&why, "%s has no learning rate", rule);
        note_rate(g, g->lr, buf_text(&why));
    } else if (g->lr && own) {
        const char *base = strchr(schedule, '=');
        buf_printf(&why, "%.*s keeps its base_lr ", (int)name, schedule);
        buf_put(&why, base + 1, strcspn(base + 1, ",)"));
        note_rate(g, g->lr, buf_text(&why));
    }
    buf_clear(&why);
    if (g->wd && !field_number(fields, n, "uses_wd")) {
        buf_printf(&why, "%s has no weight decay", rule);
        note_rate(g, g->wd, buf_text(&why));
    }
    buf_release(&why);
    return KV_OK;
}

static bool is_zero(const char *text)
{
    double x = 1;
    return num_parse(text, strlen(text), NUM_BINARY64, &x, NULL) > 0 && !(x > 0 || x < 0);
}

/* Notes a rate that was given and that the rule does not use, or its schedule. */
static void note_unused(session *s, kv *store, const rule_params *p)
{
    given_rates g = {.s = s};
    kv_err unused = {0};
    for (int i = 0; i < p->n; i++) {
        const kv_opt *o = &p->opts[i];
        bool none = strcmp(o->value, "none") == 0;
        if (name_is_word("learning_rate", o->name, strlen(o->name)))
            g.lr = none ? NULL : o;
        else if (strcmp(o->name, "wd") == 0)
            g.wd = none || is_zero(o->value) ? NULL : o;
    }
    if (g.lr || g.wd)
        kv_describe(store, "rule", compare_rates, &g, &unused);
}

/* Hands the text of a rule, with its place and the variables that it reads, to the store. */
static int set_rule(session *s, kv *store, const rule_text *r, rule_params *p, kv_err *e)
{
    int line, col;
    kv_rule *made = NULL;
    followed_names f = {0};
    const source *src = &r->unit->src;
    char *text = mem_text(src->text + r->rule->pos, r->rule->end - r->rule->pos, e);
    if (!text)
        return KV_E_MEMORY;
    source_locate(src, r->rule->pos, &line, &col);
    int code = kv_rule_new(&made, text, src->name, line, col, e);
    if (code == KV_OK)
        code = rule_variables_take(s, r, p, &f, e);
    if (code == KV_OK)
        code = kv_set_rule(store, made, p->opts, p->n, e);
    if (code == KV_OK) {
        follow_use(s, &f, r->rule->nnames ? r->rule->names[0] : "{ … }");
        note_unused(s, store, p);
        rule_variables_warn(s, r, p);
    }
    follow_release(&f);
    kv_rule_free(made);
    mem_free(text);
    return code;
}

static int set_def(session *s, kv *store, const definition *d, rule_params *p, kv_err *e)
{
    rule_text found;
    arena nodes = {0};
    int code = rule_text_of_def(&found, d, &nodes, e);
    if (code == KV_OK)
        code = set_rule(s, store, &found, p, e);
    arena_release(&nodes);
    return code;
}

/* An optimizer of the library, or none. */
static int set_optimizer(session *s, kv *store, const char *name, const rule_params *p, kv_err *e)
{
    int code;
    if (strcmp(name, "assign") != 0)
        code = kv_set_optimizer(store, name, p->opts, p->n, e);
    else if (p->n > 0)
        code = kv_err_set(e, KV_E_USAGE, "assign has no parameters");
    else
        code = kv_set_updater(store, NULL, NULL, NULL, e);
    if (code == KV_OK) {
        follow_use(s, &(followed_names){0}, name);
        note_unused(s, store, p);
    }
    return code;
}

/* An optimizer that a variable holds; the command may add parameters. */
static int set_object(session *s, kv *store, value object, const rule_params *p, kv_err *e)
{
    rule_params all = {0};
    int code = optimizer_params_add(&all, object, e);
    for (int i = 0; i < p->n && code == KV_OK; i++)
        code = rule_params_add(&all, p->opts[i].name, value_ref(p->texts[i]), e);
    if (code == KV_OK && (code = set_optimizer(s, store, object_name(object), &all, e))) {
        int own = all.n - p->n; /* of the object, which stand before those of the command */
        e->option = e->option > own ? (uint8_t)(e->option - own) : 0;
    }
    rule_params_release(&all);
    return code;
}

/* The name of a rule of the script, of a variable that holds an optimizer, or of an optimizer of
 * the library. */
static int set_word(session *s, kv *store, const char *word, rule_params *p, kv_err *e)
{
    kv_key name = {0, word};
    int64_t rule = map_get(&s->rules, name), def = map_get(&s->functions, name);
    const value *held = session_find(s, word);
    if (def >= 0)
        return set_def(s, store, &s->defs[def], p, e);
    if (rule >= 0) {
        const rule_definition *d = &s->rule_defs[rule];
        rule_text found = {d->unit, d->rule, d->rule->is_def && !d->nested};
        return set_rule(s, store, &found, p, e);
    }
    return held && object_is_optimizer(*held) ? set_object(s, store, *held, p, e)
                                              : set_optimizer(s, store, word, p, e);
}

static int set_named(session *s, kv *store, const ast *what, rule_params *p, kv_err *e)
{
    value v;
    int code = eval(s, what, &v, e);
    if (code)
        return code;
    if (v.kind == VALUE_TEXT)
        code = set_word(s, store, v.u.text, p, e);
    else if (object_is_optimizer(v))
        code = set_object(s, store, v, p, e);
    else
        code = kv_err_set(e, KV_E_DTYPE,
                          "an updater is a rule, an optimizer or the name of one, not %s",
                          value_kind_name(v));
    value_release(&v);
    return code;
}

int cmd_set_updater(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *what = call->kid[0];
    bool keeps = true, fresh = command_option_of(call, "fresh") != NULL;
    kv *store;
    rule_params p;
    int code = session_store(s, &store, e);
    if (code || (code = rule_options_read(s, call, takes_text, &(setting_rule){s, call}, &p, e)))
        return code;
    if (fresh)
        keeps = kv_keep_states(store, false);
    if (!what) {
        if ((code = kv_update_optimizer(store, p.opts, p.n, e)) == KV_OK)
            note_unused(s, store, &p);
    } else if (what->kind == STMT_RULE)
        code = set_rule(s, store, &(rule_text){s->unit, what->u.other, false}, &p, e);
    else
        code = set_named(s, store, what, &p, e);
    if (code && fresh)
        kv_keep_states(store, keeps);
    if (code)
        code = rule_options_explain(s, call, e);
    else if (what)
        out->dropped = kv_states_dropped(store);
    if (code && what && what->kind != STMT_RULE)
        unit_at(s, what, e);
    rule_params_release(&p);
    return code;
}

/* With --update: other parameters for the one in use. */
int cmd_set_optimizer(session *s, const ast *call, result *out, kv_err *e)
{
    bool update = command_option_of(call, "update") != NULL;
    if (update && call->kid[0])
        return unit_err(s, call->kid[0], e, KV_E_USAGE,
                        "--update changes the optimizer in use: no name");
    if (update && command_option_of(call, "fresh"))
        return unit_err(s, call, e, KV_E_USAGE, "--update keeps the states, --fresh drops them");
    if (!update && !call->kid[0])
        return unit_err(s, call, e, KV_E_USAGE, "set-optimizer needs a NAME, or --update");
    return cmd_set_updater(s, call, out, e);
}
