/* Facts about the updates of a rule that its text alone tells: the parts of a key that can be
 * updated by themselves, and the states that it keeps. */
#include <string.h>

#include "vm/element.h"
#include "vm/rule.h"
#include "vm/rule_env.h"

typedef struct traits {
    uint32_t states; /* by rule_state: 1 << STATE_ROW, … */
    rule_cut cut;
} traits;

static void cut_no_finer(traits *t, rule_cut cut)
{
    t->cut = cut > t->cut ? cut : t->cut;
}

static void add_function(traits *t, const element_function *f)
{
    bool by_row = f->traits & FN_BY_ROW, measures = f->traits & FN_MEASURES;
    bool asks = f->traits & FN_ASKS && !measures;
    if (measures || f->traits & FN_STEPS)
        cut_no_finer(t, RULE_CUT_NOWHERE);
    else if (by_row || asks)
        cut_no_finer(t, RULE_CUT_BY_ROWS);
    else if (f->traits & (FN_REDUCES | FN_MATRIX | FN_DRAWS))
        cut_no_finer(t, RULE_CUT_NOWHERE);
}

static void walk(traits *t, const ast *node)
{
    const element_function *f = element_called(node);
    if (f)
        add_function(t, f);
    if (node->kind == RULE_STATE)
        t->states |= 1u << node->op;
    if (node->kind == RULE_ROWS)
        cut_no_finer(t, RULE_CUT_BY_ROWS);
    if (node->kind == RULE_PRINT)
        cut_no_finer(t, RULE_CUT_NOWHERE);
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i])
            walk(t, node->kid[i]);
}

static traits traits_of(const rule_ast *r)
{
    traits t = {.cut = RULE_CUT_ANYWHERE};
    walk(&t, r->body);
    if (t.states & 1u << STATE_ROW)
        cut_no_finer(&t, RULE_CUT_BY_ROWS);
    if (t.states & 1u << STATE_COLUMN)
        cut_no_finer(&t, RULE_CUT_NOWHERE);
    return t;
}

static const ast *reader(const ast *node, const char *name)
{
    const ast *found = node->kind == AST_NAME && strcmp(node->u.text, name) == 0 ? node : NULL;
    for (uint32_t i = 0; i < node->n && !found; i++)
        found = node->kid[i] ? reader(node->kid[i], name) : NULL;
    return found;
}

const ast *rule_reader(const rule_ast *r, const char *name)
{
    return reader(r->body, name);
}

rule_cut rule_cuts(const rule_ast *r)
{
    return traits_of(r).cut;
}

bool rule_has_state(const rule_ast *r, rule_state how)
{
    return traits_of(r).states >> how & 1;
}

int rule_states(const rule_ast *r, rule_state_info out[PLAN_MAX_STATES], int *n, kv_err *e)
{
    rule_env env;
    arena memory = {0};
    int rc = rule_env_init(&env, r, &memory, e);
    for (int i = 0; !rc && i < env.n; i++)
        if (env.names[i].kind == RULE_NAME_STATE)
            out[env.names[i].state] =
                (rule_state_info){env.names[i].text, (rule_state)env.names[i].how};
    *n = rc ? 0 : env.nstates;
    arena_release(&memory);
    return rc;
}
