/* The keys of two checkpoints: which ones are compared, and what is told of each. The pieces of a
 * key are compared in diff_piece.c. */
#include "tensors/tensor_diff.h"

#include <math.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "tensors/diff_piece.h"
#include "tensors/walk.h"

/* What a walk adds to the sums: all; equal pieces of keys that differ, whose squares are missing;
 * squares again, where float64 does not hold them. */
typedef enum pass { PASS_ALL, PASS_SAME, PASS_SCALED } pass;

typedef struct diffs {
    pass pass;
    checkpoint *inputs[2];
    tensor_difference *pairs;
    const diff_options *o;
    atomic_bool *found; /* of each pair, with brief: it differs */
    bool *partly;       /* of each pair: it differs and has equal pieces */
    diff_sums *sums;     /* of each pair: those so far */
    diff_scales *scales; /* of each pair, for the last walk */
} diffs;

/* ---- Pieces ---------------------------------------------------------------------------------- */

static const tensor_info *tensor_of(const diffs *d, int64_t pair, int side)
{
    return checkpoint_at(d->inputs[side], side ? d->pairs[pair].b : d->pairs[pair].a);
}

static int add_piece(void *arg, const walk_piece *piece, int worker, kv_err *e)
{
    const diffs *d = arg;
    const tensor_type t[] = {tensor_of(d, piece->tensor, 0)->type,
                             tensor_of(d, piece->tensor, 1)->type};
    diff_sums p = DIFF_SUMS_NONE;
    (void)worker, (void)e;
    if (d->o->brief && atomic_load_explicit(&d->found[piece->tensor], memory_order_relaxed))
        return KV_OK;
    bool same = d->pass != PASS_SCALED && diff_same_bytes(t, piece);
    if (d->pass == PASS_SCALED)
        diff_scaled(&p, &d->scales[piece->tensor], t, piece);
    else if (same == (d->pass == PASS_SAME))
        diff_piece(&p, d->o, t, piece);
    p.same = same && d->pass == PASS_ALL;
    if (d->o->brief && p.unequal)
        atomic_store_explicit(&d->found[piece->tensor], true, memory_order_relaxed);
    if (piece->result)
        *(diff_sums *)piece->result = p;
    return KV_OK;
}

/* The parts of a key, in order. A second walk adds to what the first one found. */
static void end_tensor(void *arg, int64_t pair, const void *results, int64_t n)
{
    diffs *d = arg;
    const diff_sums *parts = results;
    diff_sums *all = &d->sums[pair];
    bool same = false;
    for (int64_t i = 0; i < n; i++) {
        diff_join(all, &parts[i]);
        same |= parts[i].same;
    }
    d->partly[pair] = all->unequal > 0 && same && diff_has_numbers(tensor_of(d, pair, 0)->type);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* The state by names, shapes and dtypes alone; DIFF_SAME: the data are to be compared. */
static diff_state state_of(const diffs *d, int64_t i)
{
    const tensor_difference *pair = &d->pairs[i];
    if (pair->a < 0 || pair->b < 0)
        return pair->a < 0 ? DIFF_ONLY_B : DIFF_ONLY_A;
    const tensor_info *a = tensor_of(d, i, 0), *b = tensor_of(d, i, 1);
    if (!tensor_same_shape(a->ndim, a->shape, b->ndim, b->shape))
        return DIFF_SHAPE;
    kv_dtype unused;
    bool numbers = tensor_type_dtype(a->type, &unused) && tensor_type_dtype(b->type, &unused);
    return a->type == b->type || (d->o->tolerance && numbers) ? DIFF_SAME : DIFF_DTYPE;
}

/* The scales of pairs that need any, and their sums from none; *any becomes true if there are such.
 */
static void begin_scaled(diffs *d, int64_t n, bool *any)
{
    *any = false;
    for (int64_t i = 0; i < n; i++) {
        diff_sums *p = &d->sums[i];
        d->partly[i] = false;
        d->scales[i] = (diff_scales){1, 1, 1};
        if (d->pairs[i].state != DIFF_SAME || p->unequal == 0 || d->o->brief)
            continue;
        d->scales[i] = diff_scales_of(p, tensor_of(d, i, 0)->type, tensor_of(d, i, 1)->type);
        bool both = d->scales[i].a != 1 || d->scales[i].b != 1;
        if (d->scales[i].differences != 1)
            p->differences = 0;
        if (both)
            p->a = p->b = p->product = 0;
        d->partly[i] = both || d->scales[i].differences != 1;
        *any |= d->partly[i];
    }
}

/* Walks over the pairs that are to be compared, or those that `partly` tells. */
static int walk_pairs(diffs *d, int64_t n, pass which,
                      void (*progress)(void *arg, int64_t done, int64_t all), void *arg, kv_err *e)
{
    d->pass = which;
    int64_t *at = mem_alloc(n, 2 * sizeof *at, e);
    int rc = at ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && rc == KV_OK; i++) {
        bool take = which != PASS_ALL ? d->partly[i] : d->pairs[i].state == DIFF_SAME;
        at[2 * i] = take ? d->pairs[i].a : -1;
        at[2 * i + 1] = take ? d->pairs[i].b : -1;
    }
    if (rc == KV_OK) {
        const walk w = {.inputs = d->inputs,
                        .ninputs = 2,
                        .at = at,
                        .ntensors = n,
                        .piece = add_piece,
                        .arg = d,
                        .result_bytes = d->o->brief ? 0 : sizeof(diff_sums),
                        .end = end_tensor,
                        .progress = progress,
                        .progress_arg = arg};
        rc = walk_run(&w, e);
    }
    mem_free(at);
    return rc;
}

/* Rounding may lead beyond 1. Of equal numbers it is 1, unless a * b leaves the range. */
static double cosine_of(const diff_sums *p)
{
    double both = p->a * p->b;
    double x = isnormal(both) ? p->product / sqrt(both) : p->product / sqrt(p->a) / sqrt(p->b);
    return x > 1 ? 1 : x < -1 ? -1 : x;
}

static void end_pair(const diffs *d, int64_t i)
{
    tensor_difference *out = &d->pairs[i];
    const diff_sums *p = &d->sums[i];
    const tensor_info *a = tensor_of(d, i, 0), *b = tensor_of(d, i, 1);
    if (p->unequal == 0 && !(d->o->brief && d->found[i]))
        return;
    out->state = DIFF_VALUES;
    if (d->o->brief)
        return;
    out->equal = (double)(a->elements - p->unequal) / (double)a->elements;
    out->has_numbers = diff_has_numbers(a->type);
    out->is_integer = tensor_type_is_integer(a->type) && tensor_type_is_integer(b->type);
    out->max_abs = p->most;
    out->max_int = diff_is_exact(a->type, b->type) ? p->most_int : (uint64_t)0;
    if (out->is_integer && !diff_is_exact(a->type, b->type))
        out->max_int = (uint64_t)p->most;
    out->where = p->most == 0 && p->most_int == 0 && p->first >= 0 ? p->first : p->where;
    out->has_ulps = diff_has_ulps(a->type, b->type) && p->finite > 0;
    out->ulps = p->ulps;
    out->left_out = out->is_integer || !out->has_numbers ? 0 : a->elements - p->finite;
    out->rms =
        p->finite ? sqrt(p->differences / (double)p->finite) / d->scales[i].differences : NAN;
    double norm = sqrt(p->b) / d->scales[i].b;
    out->rel = p->finite ? sqrt(p->differences) / d->scales[i].differences / norm : NAN;
    out->rel = p->finite && p->differences == 0 ? 0 : out->rel;
    out->cosine = cosine_of(p);
    const double sizes[] = {[DIFF_BY_MAX] = out->is_integer ? (double)out->max_int : out->max_abs,
                            [DIFF_BY_RMS] = out->rms,
                            [DIFF_BY_REL] = out->rel,
                            [DIFF_BY_ULPS] = (double)out->ulps,
                            [DIFF_BY_EQUAL] = 1 - out->equal,
                            [DIFF_BY_COSINE] = 1 - out->cosine};
    out->size = sizes[d->o->sort];
    if (!out->has_numbers || isnan(out->size) || !isfinite(out->max_abs))
        out->size = INFINITY;
}

int tensor_diffs(tensor_difference *pairs, int64_t n, checkpoint *a, checkpoint *b,
                 const diff_options *o, void (*progress)(void *arg, int64_t done, int64_t all),
                 void *arg, kv_err *e)
{
    diffs d = {.inputs = {a, b}, .pairs = pairs, .o = o};
    bool again = false;
    int rc = KV_E_MEMORY;
    d.found = mem_zalloc(n, sizeof *d.found, e);
    d.partly = mem_zalloc(n, sizeof *d.partly, e);
    d.sums = mem_alloc(n, sizeof *d.sums, e);
    d.scales = mem_alloc(n, sizeof *d.scales, e);
    for (int64_t i = 0; i < n && d.sums; i++) {
        const tensor_difference p = pairs[i];
        pairs[i] = (tensor_difference){.a = p.a, .b = p.b, .name = p.name, .where = -1};
        pairs[i].state = state_of(&d, i);
        d.sums[i] = DIFF_SUMS_NONE;
    }
    if (d.found && d.partly && d.sums && d.scales)
        rc = walk_pairs(&d, n, PASS_ALL, progress, arg, e);
    for (int64_t i = 0; i < n && rc == KV_OK; i++)
        again |= d.partly[i];
    if (again)
        rc = walk_pairs(&d, n, PASS_SAME, NULL, NULL, e);
    if (rc == KV_OK)
        begin_scaled(&d, n, &again);
    if (rc == KV_OK && again)
        rc = walk_pairs(&d, n, PASS_SCALED, NULL, NULL, e);
    for (int64_t i = 0; i < n && rc == KV_OK; i++)
        if (pairs[i].state == DIFF_SAME)
            end_pair(&d, i);
    mem_free(d.scales);
    mem_free(d.sums);
    mem_free(d.partly);
    mem_free(d.found);
    return rc;
}

/* How much a difference weighs, without its size. */
static int weight(diff_state state)
{
    switch (state) {
    case DIFF_ONLY_A:
    case DIFF_ONLY_B:
    case DIFF_SHAPE:
    case DIFF_DTYPE:
        return 2;
    case DIFF_VALUES:
        return 1;
    case DIFF_SAME:
        break;
    }
    return 0;
}

int tensor_diff_order(const tensor_difference *x, const tensor_difference *y)
{
    if (weight(x->state) != weight(y->state))
        return weight(x->state) > weight(y->state) ? -1 : 1;
    return x->size > y->size ? -1 : x->size < y->size ? 1 : 0;
}
