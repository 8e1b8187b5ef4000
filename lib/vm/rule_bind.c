/* The names of a rule, and which of them hold elements; and its parameters: kinds, ranges,
 * defaults. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/suggest.h"
#include "vm/element.h"
#include "vm/rule.h"
#include "vm/rule_env.h"

/* ---- Names ----------------------------------------------------------------------------------- */

/* Of updaters; a merge has its own (vm/merge.h). */
static const rule_given_name given[] = {
    {"stored", RULE_NAME_STORED, true, PLAN_STORED}, /* loaded in this order */
    {"input", RULE_NAME_GIVEN, true, PLAN_INPUT},
    {"key", RULE_NAME_GIVEN, false, -1},
    {"name", RULE_NAME_GIVEN, false, -1},
    {"t", RULE_NAME_GIVEN, false, -1},
    {"lr", RULE_NAME_GIVEN, false, -1},
    {"wd", RULE_NAME_GIVEN, false, -1},
    {"base_lr", RULE_NAME_GIVEN, false, -1},
    {"rescale_grad", RULE_NAME_GIVEN, false, -1},
    {"clip_gradient", RULE_NAME_GIVEN, false, -1},
};

#define NGIVEN (int)(sizeof given / sizeof *given)

/* A rule has few names, but one like nadam is gone through again for every key: most names differ
 * in the first letter, which needs no call. */
rule_name *rule_env_find(const rule_env *env, const char *text)
{
    for (rule_name *n = env->names, *end = n + env->n; n < end; n++)
        if (n->text == text || (n->text[0] == text[0] && strcmp(n->text, text) == 0))
            return n;
    return NULL;
}

/* Within the room that rule_env_init made. */
static void add(rule_env *env, const char *text, rule_name_kind kind, bool element)
{
    if (rule_env_find(env, text)) /* a parameter that is given too: the given number wins */
        return;
    bool known = kind != RULE_NAME_SET && kind != RULE_NAME_STATE;
    env->names[env->n++] = (rule_name){.text = text,
                                       .kind = kind,
                                       .element = element,
                                       .at = -1,
                                       .begin = -1,
                                       .known = known,
                                       .state = -1};
}

static int count_assignments(const ast *node)
{
    int n = node->kind == RULE_SET || node->kind == RULE_STATE;
    if (node->kind == AST_BLOCK || node->kind == RULE_IF)
        for (uint32_t i = 0; i < node->n; i++)
            n += node->kid[i] ? count_assignments(node->kid[i]) : 0;
    return n;
}

/* Adds the names that are assigned, and notes which become elements: those that are given one, or
 * anything in a block of which it is known late whether it runs. Returns whether one did. */
static bool collect(rule_env *env, const ast *node, bool late)
{
    bool news = false;
    if (node->kind == RULE_STATE) {
        /* which may be declared on several paths */
        bool element = node->op != STATE_KEY && node->op != STATE_SHARED;
        add(env, node->u.text, RULE_NAME_STATE, element);
        rule_name *n = rule_env_find(env, node->u.text);
        if (n->kind == RULE_NAME_STATE && n->state < 0) {
            n->how = node->op;
            n->state = (int8_t)env->nstates++;
        }
    } else if (node->kind == RULE_SET) {
        add(env, node->u.text, RULE_NAME_SET, false);
        rule_name *n = rule_env_find(env, node->u.text);
        bool may = !n->element && n->kind != RULE_NAME_STATE;
        news = may && (late || rule_env_is_element(env, node->kid[0]));
        n->element |= news;
    } else if (node->kind == AST_BLOCK || node->kind == RULE_IF) {
        late |= rule_env_is_late_if(env, node);
        for (uint32_t i = node->kind == RULE_IF; i < node->n; i++)
            news |= node->kid[i] && collect(env, node->kid[i], late);
    }
    return news;
}

bool rule_gives(const char *name)
{
    for (int i = 0; i < NGIVEN; i++)
        if (!given[i].element && strcmp(given[i].text, name) == 0)
            return true;
    return false;
}

static bool assigns(const ast *node, const char *name)
{
    if (node->kind == RULE_SET || node->kind == RULE_STATE)
        return strcmp(node->u.text, name) == 0;
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i] && assigns(node->kid[i], name))
            return true;
    return false;
}

int rule_env_init(rule_env *env, const rule_ast *r, arena *a, kv_err *e)
{
    int room = NGIVEN + r->ngiven + r->nparams + count_assignments(r->body);
    *env = (rule_env){.names = arena_alloc(a, sizeof *env->names * (size_t)room, e)};
    if (!env->names)
        return KV_E_MEMORY;
    for (int i = 0; i < r->ngiven; i++)
        add(env, r->given[i].text, r->given[i].kind, r->given[i].element);
    if (r->given) /* what a merge gives has no value before */
        rule_env_find(env, "merged")->known = false;
    for (int i = 0; i < NGIVEN && !r->given; i++) {
        /* in a def, as in Python, a name that is assigned is one of its own */
        bool own = r->is_def && rule_gives(given[i].text) && strcmp(given[i].text, "key") != 0;
        if (!own || !assigns(r->body, given[i].text))
            add(env, given[i].text, given[i].kind, given[i].element);
    }
    for (int i = 0; i < r->nparams; i++)
        add(env, r->params[i].name, RULE_NAME_PARAM, false);
    while (collect(env, r->body, false))
        continue;
    return KV_OK;
}

bool rule_env_is_element(const rule_env *env, const ast *node)
{
    if (node->kind == AST_NAME) {
        const rule_name *n = rule_env_find(env, node->u.text);
        return n && n->element;
    }
    const element_function *f = element_called(node);
    if (f && f->traits & (FN_ASKS | FN_DRAWS))
        return f->traits & FN_DRAWS;
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i] && rule_env_is_element(env, node->kid[i]))
            return true;
    return false;
}

prog_extent rule_env_name_extent(const rule_name *n)
{
    static const prog_extent one = {PROG_ONE, PROG_ONE}, all = {PROG_ROWS, PROG_COLUMNS};
    if (!n || !n->element)
        return one;
    if (n->kind != RULE_NAME_STATE)
        return n->kind == RULE_NAME_SET ? n->extent : all;
    return (prog_extent){n->how == STATE_COLUMN ? PROG_ONE : PROG_ROWS,
                         n->how == STATE_ROW ? PROG_ONE : PROG_COLUMNS};
}

prog_extent rule_env_extent(const rule_env *env, const ast *node)
{
    prog_extent extent = {PROG_ONE, PROG_ONE};
    const element_function *f = element_called(node);
    if (node->kind == AST_NAME)
        return rule_env_name_extent(rule_env_find(env, node->u.text));
    if (f && f->traits & FN_DRAWS)
        return (prog_extent){PROG_ROWS, PROG_COLUMNS};
    if (f && f->traits & FN_ASKS)
        return extent;
    if (f && f->traits & (FN_REDUCES | FN_MATRIX) && (int)node->n >= f->min) {
        prog_extent x = rule_env_extent(env, node->kid[0]);
        if (f->kind == FN_MATMUL)
            return (prog_extent){x.rows, rule_env_extent(env, node->kid[1]).columns};
        if (f->kind == FN_TURNED)
            return (prog_extent){x.columns, x.rows};
        return (prog_extent){f->traits & FN_BY_ROW ? x.rows : PROG_ONE,
                             f->traits & FN_BY_COLUMN ? x.columns : PROG_ONE};
    }
    /* what goes together with a matrix makes it no longer */
    for (uint32_t i = 0; i < node->n && !(extent.rows && extent.columns); i++)
        if (node->kid[i])
            (void)plan_join(&extent, rule_env_extent(env, node->kid[i])); /* else it is refused */
    return extent;
}

bool rule_env_is_one(const rule_env *env, const ast *node)
{
    prog_extent extent = rule_env_extent(env, node);
    return !extent.rows && !extent.columns;
}

bool rule_env_is_late_if(const rule_env *env, const ast *node)
{
    return node->kind == RULE_IF && rule_env_is_element(env, node->kid[0]);
}

/* ---- Parameters ------------------------------------------------------------------------------ */

/* Legend: name and default, whose kind is the kind of the parameter. */
static const struct {
    const char *name;
    host value;
} base_params[RULE_NBASE] = {
    [RULE_LEARNING_RATE] = {"learning_rate", {.kind = HOST_NONE}},
    [RULE_WD] = {"wd", {.kind = HOST_FLOAT, .u.number = 0}},
    [RULE_RESCALE_GRAD] = {"rescale_grad", {.kind = HOST_FLOAT, .u.number = 1}},
    [RULE_CLIP_GRADIENT] = {"clip_gradient", {.kind = HOST_NONE}},
    [RULE_BEGIN_NUM_UPDATE] = {"begin_num_update", {.kind = HOST_INT, .u.integer = 0}},
    [RULE_MULTI_PRECISION] = {"multi_precision", {.kind = HOST_BOOL, .u.integer = 0}},
    [RULE_DECAY_NAMES] = {"decay_names", {.kind = HOST_TEXT, .u.text = "_weight _gamma"}},
    [RULE_CLIP_GLOBAL_NORM] = {"clip_global_norm", {.kind = HOST_NONE}},
};

const char *rule_base_name(rule_base which)
{
    return base_params[which].name;
}

int rule_base_find(const char *name)
{
    for (int i = 0; i < RULE_NBASE; i++)
        if (name_is_word(base_params[i].name, name, strlen(name)))
            return i;
    return -1;
}

int rule_nvalues(const rule_ast *r)
{
    return r->nparams + RULE_NBASE;
}

host rule_value(const rule_binding *b, rule_base which)
{
    return b->values[b->rule->nparams + which];
}

static int find_listed(const rule_ast *r, const char *name)
{
    for (int i = 0; i < r->nparams; i++)
        if (name_is_word(r->params[i].name, name, strlen(name)))
            return i;
    return -1;
}

bool rule_lists(const rule_ast *r, const char *name)
{
    return find_listed(r, name) >= 0;
}

/* The place of a parameter among the values, or -1. */
static int find_param(const rule_ast *r, const char *name, kv_err *e)
{
    int listed = find_listed(r, name), base = r->is_merge ? -1 : rule_base_find(name);
    if (listed >= 0)
        return listed;
    if (base >= 0)
        return r->nparams + base;
    if (!r->is_merge && strcmp(name, "lr") == 0)
        return find_param(r, rule_base_name(RULE_LEARNING_RATE), e);
    const char *rule = r->nnames ? r->names[0] : "the rule";
    kv_err_set(e, KV_E_USAGE, "%s has no parameter `%s`", rule, name);
    suggest near = {.word = name, .by_first_letters = true};
    for (int i = 0; i < r->nparams; i++)
        suggest_add(&near, r->params[i].name);
    for (int i = 0; i < RULE_NBASE && !r->is_merge; i++)
        suggest_add(&near, base_params[i].name);
    suggest_done(&near, e);
    return -1;
}

static bool read_integer(const char *text, host *out)
{
    int64_t x;
    bool over = false;
    size_t n = strlen(text);
    if (n == 0 || num_parse_int(text, n, &x, &over) != n || over)
        return false;
    *out = host_int(x);
    return true;
}

static bool read_number(const char *text, host *out)
{
    double x;
    bool over = false;
    size_t n = strlen(text);
    if (n == 0 || num_parse(text, n, NUM_BINARY64, &x, &over) != n || over)
        return false;
    *out = host_float(x);
    return true;
}

static bool read_bool(const char *text, host *out)
{
    bool yes = strcmp(text, "true") == 0 || strcmp(text, "True") == 0 || strcmp(text, "1") == 0;
    bool no = strcmp(text, "false") == 0 || strcmp(text, "False") == 0 || strcmp(text, "0") == 0;
    *out = host_bool(yes);
    return yes || no;
}

static bool read_text(const char *text, size_t n, host *out, arena *a, kv_err *e)
{
    *out = host_text(arena_text(a, text, n, e));
    return out->u.text != NULL;
}

bool rule_read(const char *text, host *out, arena *a, kv_err *e)
{
    size_t n = strlen(text);
    *out = host_none();
    if (n >= 2 && text[0] == '"' && text[n - 1] == '"')
        return read_text(text + 1, n - 2, out, a, e);
    if (strcmp(text, "none") == 0 || strcmp(text, "None") == 0 || read_integer(text, out) ||
        read_number(text, out))
        return true;
    return read_bool(text, out) || read_text(text, n, out, a, e);
}

/* Reads a text as the value of a parameter whose default is of this kind. */
static bool read_value(host_kind kind, const char *text, host *out, arena *a, kv_err *e)
{
    switch (kind) {
    case HOST_NONE:
        *out = host_none();
        return strcmp(text, "none") == 0 || strcmp(text, "None") == 0 || read_integer(text, out) ||
               read_number(text, out);
    case HOST_BOOL:
        return read_bool(text, out);
    case HOST_INT:
        return read_integer(text, out);
    case HOST_FLOAT:
        return read_number(text, out);
    case HOST_TEXT:
        return read_text(text, strlen(text), out, a, e);
    }
    return false;
}

/* A parameter that has no value yet. */
static host unset(void)
{
    return host_text(NULL);
}

static bool is_unset(host x)
{
    return x.kind == HOST_TEXT && !x.u.text;
}

/* The default of a value: that of the rule, or of every rule. */
static host default_of(const rule_ast *r, int which)
{
    if (which < r->nparams && r->params[which].value)
        return host_literal(r->params[which].value);
    int base = which < r->nparams ? rule_base_find(r->params[which].name) : which - r->nparams;
    for (int i = 0; i < r->nparams && base >= 0; i++)
        if (r->params[i].value && rule_base_find(r->params[i].name) == base)
            return host_literal(r->params[i].value);
    return base >= 0 ? base_params[base].value : unset();
}

bool rule_param_allows(const rule_param *p, host value)
{
    if (!p->low || !host_is_number(value))
        return true;
    double x = host_number(value), high = host_number(host_literal(p->high));
    return x >= host_number(host_literal(p->low)) && (p->below ? x < high : x <= high);
}

static int check_range(const rule_param *p, const char *text, host value, kv_err *e)
{
    if (rule_param_allows(p, value))
        return KV_OK;
    own_buf range = {0};
    host_print(&range, host_literal(p->low), false);
    buf_add(&range, p->below ? " ..< " : " .. ");
    host_print(&range, host_literal(p->high), false);
    kv_err_set(e, KV_E_VALUE, "parameter %s must lie in %s, not %s", p->name, buf_text(&range),
               text);
    return KV_E_VALUE;
}

/* A value that makes nan of every weight. rescale_grad may be anything, since rules that scale it
 * skip a step whose gradient overflowed; clip_global_norm has a check of its own. */
static int check_finite(const char *name, const char *text, host value, host usual, kv_err *e)
{
    int base = rule_base_find(name);
    bool rate = base == RULE_LEARNING_RATE || base == RULE_WD;
    double x = host_is_number(value) ? host_number(value) : 0;
    bool same = host_is_number(usual) && isnan(host_number(usual)) && isnan(x);
    bool any = base == RULE_RESCALE_GRAD || base == RULE_CLIP_GLOBAL_NORM || same;
    if (any || !(isnan(x) || (rate && isinf(x))))
        return KV_OK;
    return kv_err_set(e, KV_E_VALUE, "parameter %s takes a finite number, not %s", name, text);
}

static int set_param(const rule_ast *r, int which, const char *text, host *value, arena *a,
                     kv_err *e)
{
    static const char *const wanted[] = {"a number or none", "true or false", "an integer",
                                         "a number", "a text"};
    host like = default_of(r, which);
    host_kind kind = like.kind;
    bool listed = which < r->nparams;
    const char *name = listed ? r->params[which].name : base_params[which - r->nparams].name;
    /* a schedule keeps its own rate then */
    bool no_rate = rule_base_find(name) == RULE_LEARNING_RATE && strcmp(text, "none") == 0;
    if (no_rate)
        *value = host_none();
    else if (is_unset(like))
        return rule_read(text, value, a, e) ? KV_OK : KV_E_MEMORY;
    else if (!read_value(kind, text, value, a, e))
        return kv_err_set(e, KV_E_DTYPE,
                          text[0] == '"' ? "parameter %s takes %s, not %s"
                                         : "parameter %s takes %s, not \"%s\"",
                          name, wanted[kind], text);
    if (listed)
        TRY(check_range(&r->params[which], text, *value, e));
    return check_finite(name, text, *value, like, e);
}

int rule_bind(const rule_ast *r, const host *kept, const char *const *names,
              const char *const *texts, int n, host *values, arena *a, kv_err *e)
{
    for (int i = 0; i < rule_nvalues(r); i++) {
        bool outside = i < r->nparams && !r->params[i].value;
        values[i] = kept ? kept[i] : outside ? unset() : default_of(r, i);
        if (kept && kept[i].kind == HOST_TEXT && kept[i].u.text &&
            !read_text(kept[i].u.text, strlen(kept[i].u.text), &values[i], a, e))
            return KV_E_MEMORY;
    }
    for (int i = 0; i < n; i++) {
        if (!names[i])
            continue;
        int which = find_param(r, names[i], e);
        if (which < 0)
            return KV_E_USAGE;
        int rc = set_param(r, which, texts[i], &values[which], a, e);
        if (rc) {
            kv_err_option(e, i);
            return rc;
        }
        int base = which < r->nparams ? rule_base_find(r->params[which].name) : -1;
        if (base >= 0)
            values[r->nparams + base] = values[which];
    }
    return KV_OK;
}

bool rule_is_given(const rule_binding *b, int i)
{
    return !is_unset(b->values[i]);
}

void rule_suggest(const rule_ast *r, suggest *near)
{
    rule_env env;
    own_arena memory = {0};
    int rc = rule_env_init(&env, r, &memory, NULL);
    for (int i = 0; !rc && i < env.n; i++) {
        int param = find_listed(r, env.names[i].text);
        if (param < 0 || r->params[param].value)
            suggest_add(near, env.names[i].text);
    }
}

bool rule_hint_other_word(const rule_ast *r, const char *name, kv_err *e)
{
    if (strcmp(name, "state") == 0 && !r->is_merge)
        return kv_err_hint(e, "a rule declares its states: "
                              "updater NAME { state m; m += input; … }"),
               true;
    if (strcmp(name, "step") == 0 || strcmp(name, "count") == 0 || strcmp(name, "num_update") == 0)
        return kv_err_hint(e, "a rule counts the updates of a key in `t`, from 1"), true;
    bool input = strcmp(name, "grad") == 0 || strcmp(name, "gradient") == 0;
    bool stored = strcmp(name, "weight") == 0 || strcmp(name, "param") == 0;
    if (r->is_def || r->is_merge || (!input && !stored))
        return false;
    kv_err_hint(e, input ? "a rule calls the sum of a push `input`"
                         : "a rule calls the value of a key `stored`");
    return true;
}

int rule_check_given(const rule_binding *b, kv_err *e)
{
    for (int i = 0; i < b->rule->nparams; i++) {
        const rule_param *p = &b->rule->params[i];
        if (rule_is_given(b, i) || (!b->rule->is_merge && rule_gives(p->name)))
            continue;
        source_err(b->src, p->pos, p->end, e, KV_E_USAGE, "a rule knows no name `%s` here",
                   p->name);
        suggest near = {.word = p->name};
        rule_suggest(b->rule, &near);
        if (!rule_hint_other_word(b->rule, p->name, e))
            suggest_done(&near, e);
        return kv_err_hint(e, "it can be a parameter: %s NAME(%s = 0.5) { … }",
                           b->rule->is_merge ? "merge" : "updater", p->name),
               KV_E_USAGE;
    }
    return KV_OK;
}
