/* Functions that merges alone have. Each reads what the runner of a plan makes: a selected number,
 * random numbers, ranks, products of low-rank matrices. */
#include "vm/merge_element.h"

#include <math.h>
#include <string.h>

#include "vm/plan_pass.h"

#define REFUSE_CALL(r, call, code, ...)                                                            \
    do {                                                                                           \
        if (!(r)->rc)                                                                              \
            REFUSE(r, call, code, __VA_ARGS__);                                                    \
    } while (0)

static const rule_operand nothing = {.v = -1};

static rule_operand of_value(prog_value v)
{
    return (rule_operand){.v = v};
}

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
        REFUSE_CALL(r, call, KV_E_VALUE, "%s takes a whole number here", function);
    return n;
}

/* An array of the plan's dtype in a slot. */
static prog_value load(rule_run *r, int slot, prog_type type)
{
    return prog_cast(r->b, type, prog_load(r->b, slot, prog_dtype(r->type), r->type));
}

/* largest(x, k): x where it is among the k largest in magnitude, else 0. A nan is as large as inf.
 */
static rule_operand largest(rule_run *r, const ast *call, prog_type type)
{
    prog_value x = rule_number(r, call->kid[0], type), none = prog_const(r->b, type, 0);
    int64_t k = whole(r, call->kid[1], "largest");
    if (!r->rc && k < 0)
        REFUSE_CALL(r, call->kid[1], KV_E_VALUE, "largest takes 0 or more, not %lld", (long long)k);
    if (r->rc)
        return nothing;
    if (k >= r->given->size)
        return of_value(x);
    if (k == 0)
        return of_value(none);
    prog_value size = rule_apply(r, PROG_WHERE, rule_apply(r, PROG_ISNAN, x, -1, -1),
                                 prog_const(r->b, type, INFINITY),
                                 rule_apply(r, PROG_ABS, x, -1, -1));
    prog_value least = plan_select(r->b, size, PLAN_LEAST, k);
    return of_value(rule_apply(r, PROG_WHERE, rule_apply(r, PROG_GE, size, least, -1), x, none));
}

/* quantile(x, q): between the two terms that stand at q of the way in sorted order. */
static rule_operand quantile(rule_run *r, const ast *call, prog_type type)
{
    prog_value x = rule_number(r, call->kid[0], type);
    host q = rule_host(r, call->kid[1]);
    int64_t n = r->given->size; /* no rule runs for a tensor without elements */
    bool inside = host_is_number(q) && host_number(q) >= 0 && host_number(q) <= 1;
    if (!inside)
        REFUSE_CALL(r, call->kid[1], KV_E_VALUE, "quantile takes a share from 0 to 1 here");
    if (r->rc)
        return nothing;
    double at = host_number(q) * (double)(n - 1), below = floor(at);
    int64_t first = (int64_t)below;
    prog_value low = plan_select(r->b, x, PLAN_ORDER, first);
    if (at == below)
        return of_value(low);
    prog_value high = plan_select(r->b, x, PLAN_ORDER, first + 1);
    prog_value gap = rule_apply(r, PROG_SUB, high, low, -1);
    gap = rule_apply(r, PROG_MUL, gap, prog_const(r->b, type, at - below), -1);
    return of_value(rule_apply(r, PROG_ADD, low, gap, -1));
}

/* uniform(seed, stream): the same call gives the same numbers. */
static rule_operand uniform(rule_run *r, const ast *call, prog_type type)
{
    merge_plan *p = r->merge;
    merge_draw draw = {whole(r, call->kid[0], "uniform"), whole(r, call->kid[1], "uniform")};
    int i = 0;
    while (i < p->ndraws && (p->draw[i].seed != draw.seed || p->draw[i].stream != draw.stream))
        i++;
    if (i == MERGE_MODELS)
        REFUSE_CALL(r, call, KV_E_VALUE, "a merge draws at most %d times", MERGE_MODELS);
    if (r->rc)
        return nothing;
    p->draw[i] = draw;
    p->ndraws = i < p->ndraws ? p->ndraws : i + 1;
    return of_value(load(r, MERGE_UNIFORM + i, type));
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

/* Makes a plan of what x is made of: a ranking needs its terms of a whole row before the plan of
 * the merge runs on it. They go to MERGE_MERGED. Errors: usage (x follows from a reduction or a
 * ranking), those of plan_make. */
static int make_terms(plan **out, prog_builder *b, prog_value x, kv_err *e)
{
    prog_type type = prog_value_type(b, x);
    prog_store(b, MERGE_MERGED, prog_dtype(type), x);
    int rc = plan_make(out, b, type, false, e);
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

static rule_operand rowrank(rule_run *r, const ast *call, prog_type type)
{
    int i = r->merge->nranks;
    prog_value x = rule_number(r, call->kid[0], r->type);
    if (i == MERGE_MODELS)
        REFUSE_CALL(r, call, KV_E_VALUE, "a merge ranks at most %d times", MERGE_MODELS);
    if (r->rc || x < 0)
        return nothing;
    merge_plan *p = r->merge;
    int rc = make_terms(&p->rank[i], r->b, x, r->e);
    if (rc) {
        rule_refuse(r, call, rc);
        return nothing;
    }
    p->nranks = i + 1;
    return of_value(load(r, MERGE_RANK + i, type));
}

/* ---- Angles ---------------------------------------------------------------------------------- */

/* The sum of products, over all elements. */
static prog_value dot(rule_run *r, prog_value x, prog_value y)
{
    return plan_sum(r->b, rule_apply(r, PROG_MUL, x, y, -1), false);
}

/* cosine(x, y): of the angle between two arrays, 0 where one is 0. Squares of float32 neither
 * overflow nor vanish in float64; those of float64 could, so these are divided by the largest. */
static rule_operand cosine(rule_run *r, const ast *call, prog_type type)
{
    prog_value v[2], none = prog_const(r->b, PROG_F64, 0), one = prog_const(r->b, PROG_F64, 1);
    for (int i = 0; i < 2; i++) {
        v[i] = rule_number(r, call->kid[i], PROG_F64);
        if (r->type != PROG_F64)
            continue;
        prog_value top = plan_reduce(r->b, rule_apply(r, PROG_ABS, v[i], -1, -1), PLAN_MAX,
                                     PLAN_OVER_ALL, false);
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
    return of_value(r->rc ? -1 : prog_cast(r->b, type, ratio));
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* matmul(lora_B[i], lora_A[i]): the check left no other. */
static rule_operand product(rule_run *r, const ast *call, prog_type type)
{
    const rule_ast *rule = r->binding->rule;
    int slot = -1;
    for (int i = 0; i < rule->ngiven; i++)
        if (strcmp(rule->given[i].text, call->kid[0]->u.text) == 0)
            slot = rule->given[i].slot;
    return of_value(load(r, slot, type));
}

rule_operand merge_element(rule_run *r, const ast *call, const element_function *f, prog_type type)
{
    if (r->rc)
        return nothing;
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
    default: /* FN_MATMUL */
        return product(r, call, type);
    }
}
