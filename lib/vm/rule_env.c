/* The names of a rule, and which of them hold elements. */
#include "vm/rule_env.h"

#include <string.h>

#include "vm/element.h"
#include "vm/rule.h"

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
