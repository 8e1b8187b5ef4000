/* The parameters of optimizers, and which of them are texts. */
#include "syntax/optimizer_param.h"

#include <string.h>
#include <strings.h>

#include "base/suggest.h"
#include "kvstore.h"
#include "lang/parse.h"

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

bool optimizer_named_takes_text(const char *param, const char *name)
{
    const char *text = optimizer_text(name);
    rule_ast *rule;
    arena nodes = {0};
    kv_err unused = {0};
    source src = {.name = name, .text = text, .line = 1, .col = 1};
    if (!text)
        return false;
    src.len = (uint32_t)strlen(text);
    bool found = parse_rule(&rule, &src, &nodes, &unused) == KV_OK &&
                 optimizer_takes_text(param, rule);
    arena_release(&nodes);
    return found;
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

/* Returns true if the rule with this text has a parameter of this name. */
static bool rule_has(const char *text, const char *param)
{
    rule_ast *rule;
    arena nodes = {0};
    kv_err unused = {0};
    bool found = false;
    source src = {.name = "", .text = text, .len = (uint32_t)strlen(text), .line = 1, .col = 1};
    bool read = parse_rule(&rule, &src, &nodes, &unused) == KV_OK;
    for (int i = 0; read && i < rule->nparams && !found; i++)
        found = strcmp(rule->params[i].name, param) == 0;
    arena_release(&nodes);
    return found;
}

bool optimizer_has_attribute(const char *name)
{
    static const char *const others[] = {
        "lr", "num_update", "set_learning_rate", "set_lr_mult", "set_wd_mult", "set_lr_scale",
        "update", "update_multi_precision", "create_state", "base_lr", "step", "factor"};
    const char *text;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], name) == 0)
            return true;
    for (const optimizer_param *p = optimizer_params; p->name; p++)
        if (strcmp(p->name, name) == 0)
            return true;
    for (int i = 0; (text = kv_optimizer_text(i, NULL)); i++)
        if (rule_has(text, name))
            return true;
    return false;
}
