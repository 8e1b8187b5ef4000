/* Checks of a merge before a byte is written: all that headers and the rule tell. */
#include <string.h>

#include "array/sort.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "merge/merge_job.h"

/* ---- Plans of keys --------------------------------------------------------------------------- */

/* A plan that keys share which have as many elements, in rows of one length, and inputs of
 * bfloat16 in the same places. */
typedef struct shape_plan {
    merge_given given;
    merge_plan plan;
    struct shape_plan *next;
} shape_plan;

struct merge_plans {
    const merge *m;
    merge_rule *rule[MERGE_MODELS + 1]; /* by the number of models of a key; NULL: not made yet */
    shape_plan *shapes;
    arena memory; /* of them */
};

merge_plans *merge_plans_new(const merge *m, kv_err *e)
{
    merge_plans *p = mem_zalloc(1, sizeof *p, e);
    if (p)
        p->m = m;
    return p;
}

void merge_plans_free(merge_plans *p)
{
    if (!p)
        return;
    for (shape_plan *s = p->shapes; s; s = s->next)
        merge_plan_release(&s->plan);
    for (int i = 0; i <= MERGE_MODELS; i++)
        merge_rule_free(p->rule[i]);
    arena_release(&p->memory);
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

int merge_plans_get(merge_plans *p, merge_job *j, const merge_factors *factors, kv_err *e)
{
    const merge *m = p->m;
    double weights[MERGE_MODELS], scales[MERGE_MODELS];
    merge_given given = {.key = j->like->name,
                         .weights = weights,
                         .lora_scales = scales,
                         .size = j->like->elements,
                         .row = merge_row_of(j->like),
                         .wide = j->wide};
    int n = 0;
    for (int i = 0; i < m->nmodels; i++) {
        if (m->adapters && factors[i].a < 0)
            continue;
        given.bf16[n] = merge_reads_bf16(j, i);
        weights[n] = m->weights ? m->weights[i] : 1;
        scales[n++] = m->lora_scales ? m->lora_scales[i] : 1;
    }
    given.bf16[MERGE_MODELS] = m->base && merge_reads_bf16(j, m->nmodels);
    merge_rule *r;
    TRY(rule_for(p, n, &r, e));
    if (merge_rule_is_of_shape(r)) {
        shape_plan *s = p->shapes;
        while (s && (s->given.size != given.size || s->given.row != given.row ||
                     s->given.wide != given.wide ||
                     memcmp(s->given.bf16, given.bf16, sizeof given.bf16) != 0))
            s = s->next;
        if (!s) {
            s = arena_alloc(&p->memory, sizeof *s, e);
            TRY(s ? merge_plan_make(&s->plan, r, &given, e) : KV_E_MEMORY);
            s->given = given;
            s->next = p->shapes;
            p->shapes = s;
        }
        j->plan = &s->plan;
        return KV_OK;
    }
    j->plan = &j->own;
    return merge_plan_make(&j->own, r, &given, e);
}

/* ---- Names ----------------------------------------------------------------------------------- */

checkpoint *merge_first(const merge *m)
{
    return m->base ? m->base : m->models[0];
}

/* The first name in a checkpoint that another one lacks, or NULL. */
static const char *name_beyond(const checkpoint *c, const checkpoint *other)
{
    for (int64_t i = 0; i < checkpoint_count(c); i++)
        if (checkpoint_find(other, checkpoint_at(c, i)->name) < 0)
            return checkpoint_at(c, i)->name;
    return NULL;
}

/* Refuses models with keys that the first checkpoint lacks, unless only some keys are merged. */
static int check_beyond(const merge *m, kv_err *e)
{
    const checkpoint *first = merge_first(m);
    for (int i = 0; i < m->nmodels && m->nkeys == checkpoint_count(first); i++) {
        const char *name = name_beyond(m->models[i], first);
        if (!name)
            continue;
        file_bad(e, KV_E_KEY, checkpoint_name(first), "there is no \"%.80s\", which %.120s has",
                 name, checkpoint_name(m->models[i]));
        return kv_err_hint(e, "GLOBs and --exclude choose keys"), KV_E_KEY;
    }
    return KV_OK;
}

/* ---- Shapes and types ------------------------------------------------------------------------ */

static void put_shape(buf *out, const tensor_info *t)
{
    buf_char(out, '(');
    for (int i = 0; i < t->ndim; i++)
        buf_printf(out, i ? ", %lld" : "%lld", (long long)t->shape[i]);
    buf_add(out, t->ndim == 1 ? ",)" : ")");
}

static int refuse_shape(const checkpoint *c, const tensor_info *t, const checkpoint *first,
                        const tensor_info *like, kv_err *e)
{
    own_buf one = {0}, other = {0};
    put_shape(&one, t);
    put_shape(&other, like);
    return file_bad(e, KV_E_SHAPE, checkpoint_name(c), "\"%.80s\" is %s, in %.120s %s", t->name,
                    buf_text(&one), checkpoint_name(first), buf_text(&other));
}

static bool is_float(tensor_type t)
{
    return tensor_type_kind(t) == TENSOR_KIND_FLOAT;
}

static int check_type(const checkpoint *c, const tensor_info *t, const checkpoint *first,
                      const tensor_info *like, kv_err *e)
{
    if (tensor_type_kind(t->type) >= TENSOR_KIND_COMPLEX) {
        file_bad(e, KV_E_DTYPE, checkpoint_name(c), "\"%.80s\" is %s, which cannot be merged",
                 t->name, tensor_info_type(t));
        return kv_err_hint(e, "--exclude leaves keys out"), KV_E_DTYPE;
    }
    if (t->type == like->type || (is_float(t->type) && is_float(like->type)))
        return KV_OK;
    file_bad(e, KV_E_DTYPE, checkpoint_name(c), "\"%.80s\" is %s, in %.120s %s", t->name,
             tensor_type_name(t->type), checkpoint_name(first), tensor_type_name(like->type));
    return kv_err_hint(e, "only floating keys are merged; others must be equal"), KV_E_DTYPE;
}

/* Checks that a key can become of the type that the output is to have. */
static int check_goal(const merge_job *j, const checkpoint *first, kv_err *e)
{
    const tensor_info *t = j->like;
    if (j->type == t->type ||
        (is_float(t->type) && tensor_type_kind(j->type) < TENSOR_KIND_COMPLEX))
        return KV_OK;
    file_bad(e, KV_E_DTYPE, checkpoint_name(first), "\"%.80s\" is %s, which cannot become %s",
             t->name, tensor_type_name(t->type), tensor_type_name(j->type));
    return kv_err_hint(e, "such keys are copied as they are: leave out --dtype for them"),
           KV_E_DTYPE;
}

/* ---- A key ----------------------------------------------------------------------------------- */

static int find_in(merge_job *j, int input, const checkpoint *c, const checkpoint *first, kv_err *e)
{
    int64_t at = checkpoint_find(c, j->like->name);
    if (at < 0) {
        const char *other = name_beyond(c, first);
        int rc =
            file_bad(e, KV_E_KEY, checkpoint_name(c), "there is no \"%.80s\", which %.120s has",
                     j->like->name, checkpoint_name(first));
        if (other)
            kv_err_hint(e, "it has \"%.80s\" instead; GLOBs and --exclude choose keys", other);
        return rc;
    }
    const tensor_info *t = checkpoint_at(c, at);
    j->at[input] = at;
    j->types[input] = t->type;
    if (!tensor_same_shape(t->ndim, t->shape, j->like->ndim, j->like->shape))
        return refuse_shape(c, t, first, j->like, e);
    return check_type(c, t, first, j->like, e);
}

static int find_adapters(merge_job *j, merge_factors *factors, const merge *m, kv_err *e)
{
    bool any = false;
    for (int i = 0; i < m->nmodels; i++) {
        TRY(merge_adapter_find(&factors[i], m->models[i], j->like,
                               m->lora_ranks ? m->lora_ranks[i] : 0, e));
        any |= factors[i].a >= 0;
    }
    if (!any)
        j->kind = MERGE_JOB_COPY;
    if (any && !is_float(j->like->type))
        return file_bad(e, KV_E_DTYPE, checkpoint_name(m->base),
                        "\"%.80s\" is %s, to which no adapter can be added", j->like->name,
                        tensor_type_name(j->like->type));
    return KV_OK;
}

int merge_job_find(merge_job *j, merge_factors *factors, const merge *m, int64_t key, kv_err *e)
{
    checkpoint *first = merge_first(m);
    int64_t at = checkpoint_find(first, m->keys[key].name);
    *j = (merge_job){.key = key, .type = m->keys[key].type};
    for (int i = 0; i < MERGE_INPUTS; i++)
        j->at[i] = -1;
    if (at < 0)
        return file_bad(e, KV_E_KEY, checkpoint_name(first), "there is no \"%.80s\"",
                        m->keys[key].name);
    j->like = checkpoint_at(first, at);
    j->kind = is_float(j->like->type) ? MERGE_JOB_RULE
              : m->keeps_first        ? MERGE_JOB_COPY
                                      : MERGE_JOB_EQUAL;
    j->wide = j->type == TENSOR_F64;
    j->width = j->wide ? 8 : 4;
    TRY(check_goal(j, first, e));
    for (int i = 0; i < m->nmodels && !m->adapters; i++)
        TRY(find_in(j, i, m->models[i], first, e));
    TRY(m->base ? find_in(j, m->nmodels, m->base, first, e) : KV_OK);
    return m->adapters ? find_adapters(j, factors, m, e) : KV_OK;
}

/* ---- Cutting --------------------------------------------------------------------------------- */

/* The ranks of a piece are at most so many elements, unless one row has more. */
#define RANKED ((int64_t)1 << 18)

int merge_job_cut(merge_job *j, kv_err *e)
{
    int64_t size = j->like->elements;
    j->piece = WALK_PIECE;
    if (j->kind == MERGE_JOB_RULE && j->plan->nranks > 0 && size > 0) {
        /* Types of less than a byte are packed in runs of up to 4 elements, so a piece of whole
         * rows has a multiple of 4. */
        int64_t row = merge_row_of(j->like), step = row % 4 ? 4 * row : row;
        int64_t n = RANKED / j->plan->nranks / step;
        j->piece = n > 0 ? n * step : step;
        j->piece = j->piece < j->like->elements ? j->piece : j->like->elements;
        if (j->piece > MERGE_RANKS_BYTES / j->width / j->plan->nranks ||
            j->plan->nranks * j->piece * j->width + sort_order_bytes(row) > MERGE_RANKS_BYTES)
            return kv_err_set(
                e, KV_E_UNSUPPORTED,
                "\"%.80s\" has rows of %lld elements: the ranks of %d rows do not fit "
                "into memory",
                j->like->name, (long long)row, j->plan->nranks);
    }
    j->npieces = size / j->piece + (size % j->piece != 0);
    j->chunks = (j->piece + MERGE_CHUNK - 1) / MERGE_CHUNK;
    return KV_OK;
}

/* ---- All keys -------------------------------------------------------------------------------- */

static int check_inputs(const merge *m, kv_err *e)
{
    if (m->nmodels < 1 || m->nmodels > MERGE_MODELS)
        return kv_err_set(e, KV_E_USAGE, "a merge takes 1 to %d models, not %d", MERGE_MODELS,
                          m->nmodels);
    if (m->adapters && !m->base) {
        kv_err_set(e, KV_E_USAGE, "adapters are merged into a base, and none is given");
        return kv_err_hint(e, "--base CKPT: the model that they are for"), KV_E_USAGE;
    }
    for (int i = 0; i < m->nmodels && m->adapters; i++)
        TRY(merge_adapter_check(m->models[i], m->base, e));
    return KV_OK;
}

static int check_key(const merge *m, merge_plans *plans, int64_t key, kv_err *e)
{
    merge_factors factors[MERGE_MODELS];
    merge_job j;
    TRY(merge_job_find(&j, factors, m, key, e));
    if (j.kind != MERGE_JOB_RULE || j.like->elements == 0)
        return KV_OK;
    int rc = merge_plans_get(plans, &j, factors, e);
    if (!rc)
        rc = merge_job_cut(&j, e);
    merge_plan_release(&j.own);
    return rc;
}

int merge_check(const merge *m, kv_err *e)
{
    merge_rule *r;
    int rc = check_inputs(m, e);
    merge_plans *plans = rc ? NULL : merge_plans_new(m, e);
    if (!rc)
        rc = plans ? rule_for(plans, m->nmodels, &r, e) : KV_E_MEMORY;
    for (int64_t i = 0; i < m->nkeys && !rc; i++)
        rc = check_key(m, plans, i, e);
    if (!rc && !m->adapters)
        rc = check_beyond(m, e);
    merge_plans_free(plans);
    return rc;
}
