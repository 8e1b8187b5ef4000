/* Help on optimizers. Their own parameters stand in the head of the rule, which is shown whole; the
 * table here holds those that need no place in a rule. */
#include "cmd/optimizer_help.h"

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

static const char schedules[] =
    "Schedules (--lr-scheduler), with their defaults; n is the largest count of a key:\n"
    "  factor(step=N, factor=1, stop_factor_lr=1e-8)  times factor behind every N updates\n"
    "  multifactor(step=[N, M], factor=1)             times factor behind each of these\n"
    "  poly(max_update=N, pwr=2, final_lr=0)          falls as a power until n = N\n"
    "  cosine(max_update=N, final_lr=0)               falls as a half cosine until n = N\n"
    "  each also: base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode=\"linear\"\n";

/* The first line of a rule's comment, without its sign. */
static void comment_line(buf *out, const char *text)
{
    text += strspn(text, "# ");
    buf_put(out, text, strcspn(text, "\n"));
}

void optimizer_list(buf *out)
{
    const char *name, *text, *other, *next;
    buf names = {0};
    for (int i = 0; (text = kv_optimizer_text(i, &name)); i++) {
        buf_clear(&names);
        buf_add(&names, name);
        /* an alias has the same text, and stands behind the first name */
        while ((next = kv_optimizer_text(i + 1, &other)) && strcmp(next, text) == 0) {
            buf_printf(&names, ", %s", other);
            i++;
        }
        buf_printf(out, "  %-14s ", buf_text(&names));
        comment_line(out, text);
        buf_char(out, '\n');
    }
    out->failed |= names.failed;
    buf_release(&names);
}

static void common(buf *out)
{
    buf_add(out,
            "Every optimizer takes these too; where the rule lists one, its default counts:\n");
    for (const optimizer_param *p = optimizer_params; p->name; p++) {
        buf option = {0};
        buf_add(&option, "--");
        for (const char *c = p->name; *c; c++)
            buf_char(&option, *c == '_' ? '-' : *c);
        buf_printf(out, "  %-20s %-15s %s\n", buf_text(&option), p->value, p->about);
        out->failed |= option.failed;
        buf_release(&option);
    }
}

static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_')))
            return false;
    return *a == *b;
}

bool optimizer_takes_text(const char *param, const rule_ast *rule)
{
    for (int i = 0; rule && i < rule->nparams; i++)
        if (same_name(rule->params[i].name, param))
            return rule->params[i].value->kind == AST_TEXT;
    for (const optimizer_param *p = optimizer_params; p->name; p++)
        if (same_name(p->name, param))
            return p->text;
    return false;
}

bool optimizer_named_takes_text(const char *param, const char *name)
{
    const char *one, *text;
    bool found = false;
    for (int i = 0; !found && (text = kv_optimizer_text(i, &one)); i++) {
        rule_ast *rule;
        arena nodes = {0};
        kv_err unused = {0};
        source src = {
            .name = one, .text = text, .len = (uint32_t)strlen(text), .line = 1, .col = 1};
        if (strcasecmp(one, name) == 0 && parse_rule(&rule, &src, &nodes, &unused) == KV_OK)
            found = optimizer_takes_text(param, rule);
        arena_release(&nodes);
    }
    return found;
}

bool optimizer_topic(const char *word)
{
    return strcasecmp(word, "optimizer") == 0;
}

int optimizer_check(const char *word, kv_err *e)
{
    const char *name;
    suggest near = {.word = word};
    for (int i = 0; kv_optimizer_text(i, &name); i++) {
        if (strcasecmp(name, word) == 0)
            return KV_OK;
        suggest_add(&near, name);
    }
    kv_err_set(e, KV_E_NAME, "there is no optimizer `%.64s`", word);
    suggest_done(&near, e);
    return kv_err_hint(e, "`help optimizer` lists them");
}

bool optimizer_show(buf *out, const char *name)
{
    const char *one, *text;
    for (int i = 0; (text = kv_optimizer_text(i, &one)); i++) {
        if (strcasecmp(one, name) != 0)
            continue;
        buf_add(out, text);
        common(out);
        buf_add(out, schedules);
        return true;
    }
    return false;
}
