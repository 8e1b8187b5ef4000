/* Plans of keys. */
#include "merge/merge_plans.h"

#include "base/mem.h"
#include "merge/merge_job.h"

/* A plan that keys share which have as many elements, in rows of one length. */
typedef struct shape_plan {
    int64_t size, row;
    bool wide;
    merge_plan plan;
    struct shape_plan *next;
} shape_plan;

struct merge_plans {
    const merge *m;
    merge_rule *rule[MERGE_MODELS + 1]; /* by the number of models of a key; NULL: not made yet */
    shape_plan *shapes;
};

int merge_plans_new(merge_plans **out, const merge *m, kv_err *e)
{
    *out = mem_zalloc(1, sizeof **out, e);
    if (!*out)
        return KV_E_MEMORY;
    (*out)->m = m;
    return KV_OK;
}

void merge_plans_free(merge_plans *p)
{
    if (!p)
        return;
    while (p->shapes) {
        shape_plan *s = p->shapes;
        p->shapes = s->next;
        merge_plan_release(&s->plan);
        mem_free(s);
    }
    for (int i = 0; i <= MERGE_MODELS; i++)
        if (p->rule[i])
            merge_rule_free(p->rule[i]);
    mem_free(p);
}

static int rule_for(merge_plans *p, int models, merge_rule **out, kv_err *e)
{
    const merge *m = p->m;
    merge_form form = {models, m->base != NULL, m->adapters};
    int rc = KV_OK;
    if (!p->rule[models])
        rc = merge_rule_make(&p->rule[models], m->rule, m->src, form, m->names, m->texts,
                             m->nparams, e);
    *out = p->rule[models];
    return rc;
}

int merge_plans_check(merge_plans *p, kv_err *e)
{
    merge_rule *r;
    return rule_for(p, p->m->nmodels, &r, e);
}

static int share(merge_plans *p, const merge_plan **out, const merge_rule *r,
                 const merge_given *given, kv_err *e)
{
    shape_plan *s = p->shapes;
    while (s && (s->size != given->size || s->row != given->row || s->wide != given->wide))
        s = s->next;
    if (!s) {
        s = mem_zalloc(1, sizeof *s, e);
        if (!s)
            return KV_E_MEMORY;
        int rc = merge_plan_make(&s->plan, r, given, e);
        if (rc) {
            mem_free(s);
            return rc;
        }
        s->size = given->size;
        s->row = given->row;
        s->wide = given->wide;
        s->next = p->shapes;
        p->shapes = s;
    }
    *out = &s->plan;
    return KV_OK;
}

int merge_plans_get(merge_plans *p, const merge_plan **out, merge_plan *own,
                    const tensor_info *like, bool wide, const merge_factors *factors, kv_err *e)
{
    const merge *m = p->m;
    double weights[MERGE_MODELS], scales[MERGE_MODELS];
    int n = 0;
    for (int i = 0; i < m->nmodels; i++) {
        if (m->adapters && factors[i].a < 0)
            continue;
        weights[n] = m->weights ? m->weights[i] : 1;
        scales[n++] = m->lora_scales ? m->lora_scales[i] : 1;
    }
    merge_given given = {.key = like->name,
                         .weights = weights,
                         .lora_scales = scales,
                         .size = like->elements,
                         .row = merge_row_of(like),
                         .wide = wide};
    merge_rule *r;
    int rc = rule_for(p, n, &r, e);
    if (rc)
        return rc;
    if (merge_rule_is_of_shape(r))
        return share(p, out, r, &given, e);
    rc = merge_plan_make(own, r, &given, e);
    *out = own;
    return rc;
}
