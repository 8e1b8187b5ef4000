/* The names in rules: parameters of optimizers, defs that are read as rules, the names that a merge
 * reads and nobody gives a value, and the warning of names that have a meaning of their own. */
#include "syntax/rules.h"

#include <string.h>
#include <strings.h>

#include "kvstore.h"
#include "lang/parse.h"
#include "syntax/effect.h"
#include "syntax/parse_statement.h"
#include "vm/rule.h"

/* ---- Parameters of optimizers ---- */

const optimizer_param optimizer_params[] = {
    {"learning_rate", "none", "none: 0.01, or what the schedule says", false},
    {"wd", "0.0", "weight decay", false},
    {"rescale_grad", "1.0", "what gradients are multiplied by", false},
    {"clip_gradient", "none", "elements of gradients are clipped to -c .. c", false},
    {"clip_global_norm", "none", "a push's gradients are scaled to norm c over all its keys",
     false},
    {"begin_num_update", "0", "the count at which every key begins", false},
    {"multi_precision", "false", "float32 masters for float16 and bfloat16 keys", false},
    {"decay_names", "_weight _gamma", "a named key with another ending has wd multiplier 0", true},
    {"lr_scheduler", "none", "one of the schedules below", true},
    {"lr_mult", "", "multipliers by key or name: 0=1.7,fc_bias=2", true},
    {"wd_mult", "", "the same for wd", true},
    {"names", "", "names of keys: 0=fc_weight,1=fc_bias", true},
    {"seed", "0", "of optimizers that draw numbers", false},
    {0},
};

bool optimizer_takes_text(const char *param, const rule_ast *rule)
{
    size_t n = strlen(param);
    for (int i = 0; rule && i < rule->nparams; i++)
        if (name_is_word(rule->params[i].name, param, n))
            return rule->params[i].value && rule->params[i].value->kind == AST_TEXT;
    for (const optimizer_param *p = optimizer_params; p->name; p++)
        if (name_is_word(p->name, param, n))
            return p->text;
    return false;
}

const char *optimizer_text(const char *name)
{
    const char *one, *text;
    for (int i = 0; (text = kv_optimizer_text(i, &one)); i++)
        if (strcasecmp(one, name) == 0)
            return text;
    return NULL;
}

const rule_ast *rule_of_text(const char *text, arena *nodes)
{
    rule_ast *rule;
    source src = {.name = "", .text = text, .len = (uint32_t)strlen(text), .line = 1, .col = 1};
    return parse_rule(&rule, &src, nodes, &(kv_err){0}) == KV_OK ? rule : NULL;
}

const char *optimizer_schedule_of(const char *name)
{
    static const char *const classes[][2] = {{"FactorScheduler", "factor"},
                                             {"MultiFactorScheduler", "multifactor"},
                                             {"PolyScheduler", "poly"},
                                             {"CosineScheduler", "cosine"}};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(name, classes[i][0]) == 0)
            return classes[i][1];
    return NULL;
}

bool optimizer_is_maker(const char *name)
{
    bool capital = *name >= 'A' && *name <= 'Z';
    return capital ? optimizer_schedule_of(name) || optimizer_text(name)
                   : strcmp(name, "create_optimizer") == 0 || strcmp(name, "get_updater") == 0;
}

const char *optimizer_own_name(const char *param)
{
    return strcmp(param, "param_idx2name") == 0 ? "names" : param;
}

bool optimizer_has_attribute(const char *name)
{
    static const char *const others[] = {
        "lr", "num_update", "set_learning_rate", "set_lr_mult", "set_wd_mult", "set_lr_scale",
        "update", "update_multi_precision", "create_state", "base_lr", "step", "factor"};
    const char *text;
    bool found = NAME_AMONG(name, others) >= 0;
    for (const optimizer_param *p = optimizer_params; p->name && !found; p++)
        found = strcmp(p->name, name) == 0;
    for (int i = 0; !found && (text = kv_optimizer_text(i, NULL)); i++) {
        own_arena nodes = {0};
        const rule_ast *rule = rule_of_text(text, &nodes);
        for (int k = 0; rule && k < rule->nparams && !found; k++)
            found = strcmp(rule->params[k].name, name) == 0;
    }
    return found;
}

/* ---- A def as an updater ---- */

int updater_of_def(rule_ast **out, const source *src, const ast *def, arena *a, kv_err *e)
{
    const ast *body = def->kid[0];
    bool indented = def->op == 0 && body->kind == AST_BLOCK && src->text[body->pos] == ':';
    if (!def_may_update(def->kid, def->n) || !indented) {
        source_err(src, def->pos, indented ? body->pos : def->end, e, KV_E_USAGE,
                   "`%s` is a function, but no updater", def->u.text);
        return kv_err_hint(e,
                           "an updater has three parameters and an indented block: "
                           "def %s(key, grad, weight): … weight -= 0.1 * grad",
                           def->u.text);
    }
    TRY(parse_rule_at(out, src, def->pos, a, e));
    return rule_check(*out, src, a, e);
}

/* ---- The names that a merge reads ---- */

/* A name counts as defined wherever the merge sets it: the order is checked with the models. */

static const char *const given[] = {"models", "weights", "base",   "key",
                                    "merged", "lora_A",  "lora_B", "lora_scale"};

/* set: the names that are not free. */
static int walk(const rule_ast *r, const map *set, const ast *node,
                int (*each)(void *arg, const ast *at, kv_err *e), void *arg, kv_err *e)
{
    if (node->kind == AST_NAME && map_get(set, (kv_key){0, node->u.text}) < 0 &&
        NAME_AMONG(node->u.text, given) < 0 && rule_reader(r, node->u.text) == node)
        TRY(each(arg, node, e));
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i])
            TRY(walk(r, set, node->kid[i], each, arg, e));
    return KV_OK;
}

int merge_names_each(const rule_ast *r, int (*each)(void *arg, const ast *at, kv_err *e), void *arg,
                     kv_err *e)
{
    own_map set = {0};
    TRY(effect_sets_below(r->body, effect_put_name, &set, e));
    for (int i = 0; i < r->nparams; i++)
        TRY(effect_put_name(&set, r->params[i].name, e));
    return walk(r, &set, r->body, each, arg, e);
}

static int is_asked_for(void *arg, const ast *at, kv_err *e)
{
    const char *name = *(const char **)arg;
    (void)e;
    if (name_is_word(at->u.text, name, strlen(name)))
        *(const char **)arg = NULL;
    return *(const char **)arg ? KV_OK : KV_E_NAME; /* it ends the walk */
}

bool merge_names_has(const rule_ast *r, const char *name)
{
    return merge_names_each(r, is_asked_for, &name, NULL) != KV_OK;
}

static int suggest_name(void *near, const char *name, kv_err *e)
{
    (void)e;
    suggest_add(near, name);
    return KV_OK;
}

void merge_names_suggest(const rule_ast *r, suggest *near)
{
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        suggest_add(near, given[i]);
    for (int i = 0; i < r->nparams; i++)
        suggest_add(near, r->params[i].name);
    effect_sets_below(r->body, suggest_name, near, NULL);
}

/* ---- Names that every rule has ---- */

/* Legend: name, the option that sets it, what it is. Keys and names of keys are not among them: a
 * loop over keys has such variables, and they mean the same. */
static const struct {
    const char *name, *option, *about;
} own_names[] = {
    {"lr", "learning-rate", "the learning rate of the updater"},
    {"base_lr", "learning-rate", "the learning rate of the updater"},
    {"wd", "wd", "the weight decay of the updater"},
    {"rescale_grad", "rescale-grad", "a parameter of the updater"},
    {"clip_gradient", "clip-gradient", "a parameter of the updater"},
    {"t", NULL, "the count of updates"},
};

void own_names_warn(session *s, unit *u, const rule_ast *rule,
                    bool (*hides)(void *arg, const char *name, const char *option), void *arg)
{
    unit *outer = s->unit;
    s->unit = u;
    for (size_t i = 0; !rule->is_def && i < sizeof own_names / sizeof *own_names; i++) {
        const char *name = own_names[i].name, *option = own_names[i].option;
        const ast *reader = rule_lists(rule, name) ? NULL : rule_reader(rule, name);
        if (!reader || !hides(arg, name, option))
            continue;
        if (option)
            session_warn(s, reader, "`%s` is %s in a rule, not the variable; --%s (%s) gives it",
                         name, own_names[i].about, option, name);
        else
            session_warn(s, reader, "`%s` is %s in a rule, not the variable", name,
                         own_names[i].about);
    }
    s->unit = outer;
}
