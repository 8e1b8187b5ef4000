/* Merges: from a parsed rule to one without lists, and from that to the plan of a key. */
#include "vm/merge.h"

#include <string.h>

#include "base/mem.h"
#include "vm/merge_element.h"
#include "vm/merge_lists.h"
#include "vm/rule_run.h"

struct merge_rule {
    rule_binding binding;
    merge_form form;
    bool of_shape;
    arena memory;
};

/* ---- Rules ----------------------------------------------------------------------------------- */

/* Names that only some merges are given, and what else they would be. */
static int refuse_absent(const rule_param *p, const source *s, merge_form form, kv_err *e)
{
    static const char *const lora[] = {"lora_A", "lora_B", "lora_scale"};
    if (strcmp(p->name, "base") == 0) {
        source_err(s, p->pos, p->end, e, KV_E_USAGE, "this merge reads `base`, and none is given");
        return kv_err_hint(e, "--base CKPT: what the models were made from"), KV_E_USAGE;
    }
    if (strcmp(p->name, "models") == 0 && form.adapters)
        return source_err(s, p->pos, p->end, e, KV_E_USAGE,
                          "a merge of adapters reads lora_A and lora_B, not `models`");
    for (size_t i = 0; i < sizeof lora / sizeof *lora; i++)
        if (strcmp(p->name, lora[i]) == 0)
            return source_err(s, p->pos, p->end, e, KV_E_USAGE,
                              "`%s` is a list of adapters, and these are models", p->name);
    return KV_OK;
}

static int check_names(const rule_ast *r, const source *s, merge_form form, kv_err *e)
{
    int rc = KV_OK;
    for (int i = 0; i < r->nparams && !rc; i++)
        if (!r->params[i].value)
            rc = refuse_absent(&r->params[i], s, form, e);
    return rc;
}

/* Returns true if a rule reads a name, or calls a function with traits. */
static bool reads(const ast *node, const char *name, int traits)
{
    const element_function *f = element_called(node);
    if ((node->kind == AST_NAME && strcmp(node->u.text, name) == 0) || (f && f->traits & traits))
        return true;
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i] && reads(node->kid[i], name, traits))
            return true;
    return false;
}

static int bind(merge_rule *m, const char *const *names, const char *const *texts, int n, kv_err *e)
{
    const rule_ast *r = m->binding.rule;
    host *values = arena_alloc(&m->memory, (size_t)(rule_nvalues(r) + 1) * sizeof *values, e);
    if (!values)
        return KV_E_MEMORY;
    m->binding.values = values;
    int rc = rule_bind(r, NULL, names, texts, n, values, &m->memory, e);
    return rc ? rc : rule_check_given(&m->binding, e);
}

int merge_rule_make(merge_rule **out, const rule_ast *r, const source *s, merge_form form,
                    const char *const *names, const char *const *texts, int n, kv_err *e)
{
    merge_rule *m = mem_zalloc(1, sizeof *m, e);
    rule_ast *written = NULL;
    if (!m)
        return KV_E_MEMORY;
    m->form = form;
    int rc = merge_lists_write(&written, r, s, form, names, texts, n, &m->memory, e);
    if (!rc)
        rc = rule_check(written, s, &m->memory, e);
    if (!rc)
        rc = check_names(written, s, form, e);
    m->binding = (rule_binding){.rule = written, .src = s};
    if (!rc)
        rc = bind(m, names, texts, n, e);
    if (!rc) {
        m->of_shape = !reads(written->body, "key", 0) && !form.adapters;
        *out = m;
    } else {
        merge_rule_free(m);
    }
    return rc;
}

void merge_rule_free(merge_rule *m)
{
    if (m)
        arena_release(&m->memory);
    mem_free(m);
}

bool merge_rule_is_of_shape(const merge_rule *m)
{
    return m->of_shape;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static void give_number(rule_run *r, const char *name, host x)
{
    rule_name *n = rule_env_find(&r->env, name);
    n->number = x;
}

/* The given name list[i], of numbers. */
static void give_item(rule_run *r, const char *name, const merge_given *given)
{
    const char *bracket = strchr(name, '[');
    bool weights = bracket && strncmp(name, "weights[", 8) == 0;
    const double *from = weights ? given->weights : given->lora_scales;
    int64_t i = 0;
    for (const char *c = bracket ? bracket + 1 : ""; *c >= '0' && *c <= '9'; c++)
        i = i * 10 + (*c - '0');
    give_number(r, name, bracket ? host_float(from[i]) : host_text(given->key));
}

static void set_given(rule_run *r, const merge_given *given)
{
    const rule_ast *rule = r->binding->rule;
    for (int i = 0; i < rule->nparams; i++)
        if (rule_is_given(r->binding, i))
            give_number(r, rule->params[i].name, r->binding->values[i]);
    for (int i = 0; i < rule->ngiven; i++) {
        const rule_given_name *g = &rule->given[i];
        if (!g->element)
            give_item(r, g->text, given);
        else if (g->slot > MERGE_MERGED)
            rule_env_find(&r->env, g->text)->at =
                prog_load(r->b, g->slot, prog_dtype(r->type), r->type);
    }
}

static int run_merge(rule_run *r, const merge_given *given)
{
    set_given(r, given);
    rule_run_body(r);
    if (r->rc)
        return r->rc;
    prog_value merged = rule_env_find(&r->env, "merged")->at;
    prog_store(r->b, MERGE_MERGED, prog_dtype(r->type), merged);
    return plan_make(&r->merge->plan, r->b, r->type, false, r->e);
}

int merge_plan_make(merge_plan *p, const merge_rule *m, const merge_given *given, kv_err *e)
{
    kv_err unused = {0};
    rule_update update = {0};
    rule_given key = {.size = given->size, .row = given->row};
    rule_run r = {.binding = &m->binding,
                  .given = &key,
                  .dtype = given->wide ? KV_FLOAT64 : KV_FLOAT32,
                  .stored_dtype = given->wide ? KV_FLOAT64 : KV_FLOAT32,
                  .type = given->wide ? PROG_F64 : PROG_F32,
                  .path = -1,
                  .skip = -1,
                  .u = &update,
                  .merge = p,
                  .merge_element = merge_element,
                  .e = e ? e : &unused};
    *p = (merge_plan){.type = r.type};
    int rc = rule_env_init(&r.env, m->binding.rule, &r.memory, r.e);
    if (!rc && !(r.b = prog_builder_new(r.e)))
        rc = KV_E_MEMORY;
    if (!rc)
        rc = run_merge(&r, given);
    prog_builder_free(r.b);
    arena_release(&r.memory);
    if (rc)
        merge_plan_release(p);
    return rc;
}

void merge_plan_release(merge_plan *p)
{
    for (int i = 0; i < p->nranks; i++)
        plan_free(p->rank[i]);
    plan_free(p->plan);
    *p = (merge_plan){0};
}
