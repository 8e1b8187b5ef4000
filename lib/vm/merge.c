/* Merges: from a parsed rule to one without lists, and from that to the plan of a key. */
#include "vm/merge.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "vm/plan_pass.h"
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

static void release(merge_rule **m)
{
    merge_rule_free(*m);
}

int merge_rule_make(merge_rule **out, const rule_ast *r, const source *s, merge_form form,
                    const char *const *names, const char *const *texts, int n, kv_err *e)
{
    OWN(release) merge_rule *m = mem_zalloc(1, sizeof *m, e);
    rule_ast *written = NULL;
    if (!m)
        return KV_E_MEMORY;
    m->form = form;
    TRY(merge_lists_write(&written, r, s, form, names, texts, n, &m->memory, e));
    TRY(rule_check(written, s, &m->memory, e));
    for (int i = 0; i < written->nparams; i++)
        if (!written->params[i].value)
            TRY(refuse_absent(&written->params[i], s, form, e));
    host *values =
        arena_alloc(&m->memory, (size_t)(rule_nvalues(written) + 1) * sizeof *values, e);
    m->binding = (rule_binding){.rule = written, .src = s, .values = values};
    TRY(values ? rule_bind(written, NULL, names, texts, n, values, &m->memory, e) : KV_E_MEMORY);
    TRY(rule_check_given(&m->binding, e));
    m->of_shape = !rule_reader(written, "key") && !form.adapters;
    *out = m;
    m = NULL;
    return KV_OK;
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

/* ---- Functions that merges alone have -------------------------------------------------------- */

/* Each reads what the runner of a plan makes: a selected number, random numbers, ranks, products of
 * low-rank matrices. */

/* An argument that is a whole host number. */
static int64_t whole(rule_run *r, const ast *call, const char *function)
{
    host x = rule_host(r, call);
    int64_t n = 0;
    bool is = x.kind == HOST_INT || x.kind == HOST_BOOL;
    if (is)
        n = x.u.integer;
    else if (x.kind == HOST_FLOAT)
        is = element_is_whole(x.u.number, &n);
    if (!is)
        REFUSE(r, call, KV_E_VALUE, "%s takes a whole number here", function);
    return n;
}

/* An array of the plan's dtype in a slot. */
static prog_value load(rule_run *r, int slot, prog_type type)
{
    return prog_cast(r->b, type, prog_load(r->b, slot, prog_dtype(r->type), r->type));
}

/* largest(x, k): x where it is among the k largest in magnitude, else 0. A nan is as
 * large as inf. */
static prog_value largest(rule_run *r, const ast *call, prog_type type)
{
    prog_value x = rule_number(r, call->kid[0], type), none = prog_const(r->b, type, 0);
    int64_t k = whole(r, call->kid[1], "largest");
    if (k < 0)
        REFUSE(r, call->kid[1], KV_E_VALUE, "largest takes 0 or more, not %lld", (long long)k);
    if (r->rc)
        return -1;
    if (k >= r->given->size)
        return x;
    if (k == 0)
        return none;
    prog_value size = rule_apply(r, PROG_ABS, x, -1, -1), most = prog_const(r->b, type, INFINITY);
    prog_value nan = rule_apply(r, PROG_ISNAN, x, -1, -1);
    size = rule_apply(r, PROG_WHERE, nan, most, size);
    prog_value least = plan_reduce(r->b, size, (plan_reduction){.fold = PLAN_LEAST, .order = k});
    return rule_apply(r, PROG_WHERE, rule_apply(r, PROG_GE, size, least, -1), x, none);
}

/* quantile(x, q): between the two terms that stand at q of the way in sorted order. */
static prog_value quantile(rule_run *r, const ast *call, prog_type type)
{
    prog_value x = rule_number(r, call->kid[0], type);
    host q = rule_host(r, call->kid[1]);
    int64_t n = r->given->size; /* no rule runs for a tensor without elements */
    bool inside = host_is_number(q) && host_number(q) >= 0 && host_number(q) <= 1;
    if (!inside)
        REFUSE(r, call->kid[1], KV_E_VALUE, "quantile takes a share from 0 to 1 here");
    if (r->rc)
        return -1;
    double at = host_number(q) * (double)(n - 1), below = floor(at);
    plan_reduction how = {.fold = PLAN_ORDER, .order = (int64_t)below};
    prog_value low = plan_reduce(r->b, x, how);
    if (at == below)
        return low;
    how.order++;
    prog_value high = plan_reduce(r->b, x, how);
    prog_value gap = rule_apply(r, PROG_SUB, high, low, -1);
    gap = rule_apply(r, PROG_MUL, gap, prog_const(r->b, type, at - below), -1);
    /* both may be infinite */
    return rule_apply(r, PROG_WHERE, rule_apply(r, PROG_EQ, low, high, -1), low,
                      rule_apply(r, PROG_ADD, low, gap, -1));
}

/* uniform(seed, stream): the same call gives the same numbers. */
static prog_value uniform(rule_run *r, const ast *call, prog_type type)
{
    merge_plan *p = r->merge;
    merge_draw draw = {whole(r, call->kid[0], "uniform"), whole(r, call->kid[1], "uniform")};
    int i = 0;
    while (i < p->ndraws && (p->draw[i].seed != draw.seed || p->draw[i].stream != draw.stream))
        i++;
    if (i == MERGE_MODELS)
        REFUSE(r, call, KV_E_VALUE, "a merge draws at most %d times", MERGE_MODELS);
    if (r->rc)
        return -1;
    p->draw[i] = draw;
    p->ndraws = i < p->ndraws ? p->ndraws : i + 1;
    return load(r, MERGE_UNIFORM + i, type);
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

/* Makes a plan of what x is made of: a ranking needs its terms of a whole row before the plan of
 * the merge runs on it. They go to MERGE_MERGED. Errors: usage (x follows from a reduction or a
 * ranking), those of plan_make. */
static int make_terms(plan **out, prog_builder *b, prog_value x, kv_err *e)
{
    prog_type type = prog_value_type(b, x);
    prog_store(b, MERGE_MERGED, prog_dtype(type), x);
    int rc = plan_make(out, b, (plan_way){.type = type}, e);
    b->nstores = 0;
    bool reads = !rc && (*out)->nnumbers > 0;
    for (int s = 0; !rc && s < (*out)->pass[0].nslots; s++)
        reads |= plan_slot_kind((*out)->pass[0].slot[s]) == MERGE_RANK;
    if (reads) {
        plan_free(*out);
        rc = kv_err_set(e, KV_E_USAGE,
                        "rowrank takes what follows from the elements alone, not from a "
                        "reduction or another rank");
    }
    return rc;
}

static prog_value rowrank(rule_run *r, const ast *call, prog_type type)
{
    int i = r->merge->nranks;
    prog_value x = rule_number(r, call->kid[0], r->type);
    if (i == MERGE_MODELS)
        REFUSE(r, call, KV_E_VALUE, "a merge ranks at most %d times", MERGE_MODELS);
    if (r->rc || x < 0)
        return -1;
    merge_plan *p = r->merge;
    int rc = make_terms(&p->rank[i], r->b, x, r->e);
    if (rc) {
        rule_refuse(r, call, rc);
        return -1;
    }
    p->nranks = i + 1;
    return load(r, MERGE_RANK + i, type);
}

/* ---- Angles ---------------------------------------------------------------------------------- */

/* The sum of products, over all elements. */
static prog_value dot(rule_run *r, prog_value x, prog_value y)
{
    return plan_reduce(r->b, rule_apply(r, PROG_MUL, x, y, -1), (plan_reduction){0});
}

/* cosine(x, y): of the angle between two arrays, 0 where one is 0. Squares of float32 neither
 * overflow nor vanish in float64; those of float64 could, so these are divided by the largest. */
static prog_value cosine(rule_run *r, const ast *call, prog_type type)
{
    prog_value v[2], none = prog_const(r->b, PROG_F64, 0), one = prog_const(r->b, PROG_F64, 1);
    for (int i = 0; i < 2; i++) {
        v[i] = rule_number(r, call->kid[i], PROG_F64);
        if (r->type != PROG_F64)
            continue;
        prog_value top = plan_reduce(r->b, rule_apply(r, PROG_ABS, v[i], -1, -1),
                                     (plan_reduction){.fold = PLAN_MAX});
        prog_value zero = rule_apply(r, PROG_EQ, top, none, -1);
        v[i] = rule_apply(r, PROG_DIV, v[i], rule_apply(r, PROG_WHERE, zero, one, top), -1);
    }
    prog_value size[2];
    for (int i = 0; i < 2; i++)
        size[i] = rule_apply(r, PROG_SQRT, dot(r, v[i], v[i]), -1, -1);
    prog_value both = rule_apply(r, PROG_MUL, size[0], size[1], -1);
    prog_value ratio = rule_apply(r, PROG_DIV, dot(r, v[0], v[1]), both, -1);
    ratio = rule_apply(r, PROG_CLIP, ratio, prog_const(r->b, PROG_F64, -1), one);
    prog_value zero = rule_apply(r, PROG_EQ, both, none, -1);
    ratio = rule_apply(r, PROG_WHERE, zero, none, ratio);
    return r->rc ? -1 : prog_cast(r->b, type, ratio);
}

/* ---- All of them ----------------------------------------------------------------------------- */

static prog_value merge_element(rule_run *r, const ast *call, const element_function *f,
                                prog_type type)
{
    if (r->rc)
        return -1;
    switch (f->kind) {
    case FN_LARGEST:
        return largest(r, call, type);
    case FN_QUANTILE:
        return quantile(r, call, type);
    case FN_UNIFORM:
        return uniform(r, call, type);
    case FN_ROWRANK:
        return rowrank(r, call, type);
    case FN_COSINE:
        return cosine(r, call, type);
    default: /* FN_MATMUL, of lora_B[i] and lora_A[i]: the check left no other */
        return prog_cast(r->b, type, rule_env_find(&r->env, call->kid[0]->u.text)->at);
    }
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static kv_dtype dtype_of(const rule_run *r, const merge_given *given, int slot)
{
    int input = slot == MERGE_BASE ? MERGE_MODELS : plan_slot_index(slot);
    bool is_input = slot == MERGE_BASE || slot < MERGE_PRODUCT;
    return is_input && given->bf16[input] ? KV_BFLOAT16 : prog_dtype(r->type);
}

static int run_merge(rule_run *r, const merge_given *given)
{
    const rule_ast *rule = r->binding->rule;
    for (int i = 0; i < rule->nparams; i++)
        if (rule_is_given(r->binding, i))
            rule_env_find(&r->env, rule->params[i].name)->number = r->binding->values[i];
    for (int i = 0; i < rule->ngiven; i++) {
        const rule_given_name *g = &rule->given[i];
        rule_name *n = rule_env_find(&r->env, g->text);
        int at = plan_slot_index(g->slot);
        if (g->element && g->slot > MERGE_MERGED)
            n->at = prog_load(r->b, g->slot, dtype_of(r, given, g->slot), r->type);
        else if (g->slot == MERGE_WEIGHT + at)
            n->number = host_float(given->weights[at]);
        else if (g->slot == MERGE_SCALE + at)
            n->number = host_float(given->lora_scales[at]);
        else if (!g->element)
            n->number = host_text(given->key);
    }
    rule_run_body(r);
    if (r->rc)
        return r->rc;
    prog_value merged = rule_env_find(&r->env, "merged")->at;
    prog_store(r->b, MERGE_MERGED, prog_dtype(r->type), merged);
    return plan_make(&r->merge->plan, r->b, (plan_way){.type = r->type}, r->e);
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
