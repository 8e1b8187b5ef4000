/* From groups to lists of jobs. */
#include "core/call_gpu.h"

#include "array/mirror.h"
#include "array/sparse.h"
#include "base/mem.h"
#include "core/call_gpu_rows.h"
#include "core/call_together.h"
#include "core/call_trace.h"
#include "core/compress.h"
#include "core/updater.h"
#include "vm/plan_gpu.h"

/* What one device is given of a call. */
typedef struct lists {
    call *call;
    const gpu_ops *gpu;
    int id;
    arena memory;
    gpu_job *codes, *sums, *moves; /* in this order, and the rules between sums and moves */
    plan_gpu_item *rules;
    const void *const *sums_of; /* of each group NULL, or where the GPUs put its sum together */
    int64_t ncodes, nsums, nrules, nmoves, moves_cap;
} lists;

/* ---- What can be done there ---- */

/* Values that lie elsewhere, in host memory too, are copied to the key's GPU; those of which codes
 * are made are there. */
static bool values_can(const call *c, const call_group *g)
{
    for (int64_t i = 0; i < g->n && c->compress.state; i++)
        if (!mirror_has(c->values[g->first + i]))
            return false;
    return true;
}

static bool rule_can(const call *c, const call_group *g)
{
    updater_arrays u;
    if (!updater_rule_arrays(c, g, &u) || u.prints)
        return false;
    bool can = plan_gpu_possible(g->update->plan) && mirror_gpu(u.held) == mirror_gpu(g->target);
    for (int i = 0; i < u.n; i++)
        can &= mirror_has(u.items[i]) && mirror_gpu(u.items[i]) == mirror_gpu(g->target);
    return can;
}

/* Whether all arrays but those of an updater are on GPUs. */
static bool lies_on_gpus(const call *c, const call_group *g)
{
    return g->target && mirror_has(g->target) && !g->sparse && !g->mixed && !g->sum &&
           sparse_is_full(g->target) && values_can(c, g);
}

static bool push_can(const call *c, const call_group *g)
{
    if (!lies_on_gpus(c, g) || (c->compress.state && !compress_gpu_can(c, g)))
        return false;
    if (c->update.state)
        return g->same_dtype && rule_can(c, g) &&
               (!g->source || mirror_can_copy(g->target, g->source));
    return g->same_dtype || g->n == 1;
}

/* ---- Places for values of other devices ---- */

/* Behind call.places: a block for each value, or NULL, on the device of its key. */
typedef struct places {
    const gpu_ops *gpu;
    int64_t n;
    struct {
        void *block;
        int id;
    } of[];
} places;

static void give_places(call *c)
{
    places *p = c->places.state;
    for (int64_t i = 0; i < p->n; i++)
        if (p->of[i].block)
            p->gpu->free(p->of[i].id, p->of[i].block);
    mem_free(p);
}

static int new_places(call *c, kv_err *e)
{
    int64_t n = c->nvalues;
    places *p = mem_zalloc(1, sizeof *p + (size_t)n * sizeof p->of[0], e);
    if (!p)
        return KV_E_MEMORY;
    p->gpu = gpu_find(e);
    p->n = n;
    c->places = (call_part){p, give_places};
    return KV_OK;
}

/* Calls that are pending have such places too, and give them back: where there is no memory they
 * are waited for. */
static int take_place(call *c, int64_t value, int id, int64_t bytes, kv_err *e)
{
    kv_err why = {0};
    void *block = NULL;
    int rc = c->places.state ? KV_OK : new_places(c, e);
    if (rc)
        return rc;
    places *p = c->places.state;
    if (p->gpu->alloc(id, bytes, &block, &why)) {
        engine_wait_group(&c->pool->group, 0);
        rc = p->gpu->alloc(id, bytes, &block, e);
    }
    p->of[value].block = block;
    p->of[value].id = id;
    return rc;
}

static int64_t bytes_of(const kv_array *a)
{
    return a->size * kv_dtype_bytes((kv_dtype)a->dtype);
}

/* Of a group that will run on a GPU. What GPUs sum together is in places of their own. */
static int take_places(call *c, const call_group *g, kv_err *e)
{
    int rc = KV_OK;
    if (!push_can(c, g) || (c->together && g->n > 1))
        return KV_OK;
    for (int64_t i = g->first; i < g->first + g->n && !rc; i++)
        if (mirror_gpu(c->values[i]) != mirror_gpu(g->target) && c->values[i]->size > 0)
            rc = take_place(c, i, mirror_gpu(g->target), bytes_of(c->values[i]), e);
    return rc;
}

/* ---- Jobs of a push ---- */

/* Where a value lies on the device; those of other devices are copied there. */
static int place_value(const lists *l, int64_t value, const void **out, kv_err *e)
{
    const kv_array *a = l->call->values[value];
    const places *p = l->call->places.state;
    void *block = NULL, *place = p ? p->of[value].block : NULL;
    int rc = mirror_has(a) ? mirror_device(a, MIRROR_READ, &block, e) : KV_OK;
    *out = place ? place : block;
    if (place && !mirror_has(a))
        return l->gpu->copy_in(l->id, place, a->data, bytes_of(a), e);
    return rc || !place ? rc : l->gpu->copy(l->id, place, mirror_gpu(a), block, bytes_of(a), e);
}

static const void *sum_of(const lists *l, const call_group *g)
{
    return l->sums_of ? l->sums_of[g - l->call->groups] : NULL;
}

/* The places of the values, or of their sum alone where it is there already. */
static int place_values(lists *l, const call_group *g, const void ***out, int64_t *n, kv_err *e)
{
    int rc = KV_OK;
    const void *sum = sum_of(l, g);
    *n = sum ? 1 : g->n;
    *out = arena_alloc(&l->memory, (size_t)*n * sizeof **out, e);
    if (!*out)
        return KV_E_MEMORY;
    if (sum)
        **out = sum;
    for (int64_t i = 0; i < g->n && !sum && !rc; i++)
        rc = place_value(l, g->first + i, &(*out)[i], e);
    return rc;
}

static int add_sum(lists *l, const call_group *g, kv_err *e)
{
    const void **src;
    void *dst;
    int64_t n;
    int rc = place_values(l, g, &src, &n, e);
    if (rc || (rc = mirror_device(g->target, MIRROR_WRITE, &dst, e)) || sum_of(l, g) == dst)
        return rc;
    l->sums[l->nsums++] = (gpu_job){.dst = dst,
                                    .n = g->target->size,
                                    .src = src,
                                    .nsrc = n,
                                    .to = (kv_dtype)g->target->dtype,
                                    .from = (kv_dtype)l->call->values[g->first]->dtype};
    return KV_OK;
}

int call_gpu_rule_arrays(const call *c, const call_group *g, plan_arrays *out, kv_err *e)
{
    updater_arrays u;
    int rc = g->source ? array_fill(g->target, g->source, e) : KV_OK;
    if (rc)
        return rc;
    updater_rule_arrays(c, g, &u);
    *out = u.plan;
    for (int i = 0; i < u.n && !rc; i++)
        rc = mirror_device(u.items[i], MIRROR_CHANGE, &out->states[u.number[i]], e);
    if (!rc)
        rc = mirror_device(g->target, MIRROR_CHANGE, &out->weight, e);
    out->stored = out->weight;
    if (!rc && u.held != g->target)
        rc = mirror_device(u.held, MIRROR_CHANGE, &out->stored, e);
    out->size = g->target->size;
    return rc;
}

static int add_rule(lists *l, const call_group *g, kv_err *e)
{
    const void **src;
    plan_arrays *a = arena_alloc(&l->memory, sizeof *a, e);
    int64_t n = 0;
    int rc = a ? place_values(l, g, &src, &n, e) : KV_E_MEMORY;
    if (!rc)
        rc = call_gpu_rule_arrays(l->call, g, a, e);
    if (rc)
        return rc;
    l->rules[l->nrules++] = (plan_gpu_item){g->update->plan, a, src, n};
    return KV_OK;
}

static int add_group(lists *l, const call_group *g, kv_err *e)
{
    const call *c = l->call;
    int rc = KV_OK;
    if (c->compress.state) {
        rc = compress_gpu_job(c, g, &l->codes[l->ncodes++], &l->memory, e);
        if (rc || !c->update.state) /* the sum is what is stored */
            return rc;
    }
    return c->update.state ? add_rule(l, g, e) : add_sum(l, g, e);
}

/* Sums of one value that has another dtype are conversions. */
static int run_sums(lists *l, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0, end; i < l->nsums && !rc; i = end) {
        bool converts = l->sums[i].to != l->sums[i].from;
        for (end = i + 1; end < l->nsums; end++)
            if ((l->sums[end].to != l->sums[end].from) != converts)
                break;
        rc = l->gpu->run(l->id, converts ? GPU_CONVERT : GPU_SUM, l->sums + i, end - i, e);
    }
    return rc;
}

/* ---- Copies to outs ---- */

static int add_move(lists *l, const kv_array *out, const kv_array *from, kv_err *e)
{
    void *dst, *src;
    const void **list = arena_alloc(&l->memory, sizeof *list, e);
    int rc = list ? mirror_device(from, MIRROR_READ, &src, e) : KV_E_MEMORY;
    if (rc || (rc = mirror_device(out, MIRROR_WRITE, &dst, e)) ||
        (rc = mem_grow(&l->moves, &l->moves_cap, l->nmoves + 1, sizeof *l->moves, e)))
        return rc;
    *list = src;
    l->moves[l->nmoves++] = (gpu_job){.dst = dst,
                                      .n = out->size,
                                      .src = list,
                                      .nsrc = 1,
                                      .to = (kv_dtype)out->dtype,
                                      .from = (kv_dtype)from->dtype};
    return KV_OK;
}

/* By way of the host, where dtypes and places both differ. */
static int convert_home(kv_array *out, const kv_array *from, kv_err *e)
{
    int rc = mirror_host(from, MIRROR_READ, e);
    if (rc || (rc = mirror_host(out, MIRROR_WRITE, e)))
        return rc;
    apply_copy(out, from);
    return KV_OK;
}

/* What must come after the launches of a push, and at once when arrays may be written twice. */
static int copy_to(lists *l, kv_array *out, const kv_array *from, bool listed, kv_err *e)
{
    if (out->data == from->data)
        return KV_OK;
    bool same = mirror_has(out) && mirror_gpu(out) == l->id && mirror_gpu(from) == l->id;
    if (same && listed)
        return add_move(l, out, from, e);
    if (mirror_can_copy(out, from))
        return mirror_copy(out, from, e);
    return convert_home(out, from, e);
}

static int run_moves(lists *l, kv_err *e)
{
    int64_t begin = call_trace_begin(l->call);
    if (l->nmoves == 0)
        return KV_OK;
    int rc = l->gpu->run(l->id, GPU_CONVERT, l->moves, l->nmoves, e);
    call_trace_device(l->call, begin, "copy", l->gpu, l->id);
    return rc;
}

static void release(lists *l)
{
    mem_free(l->codes);
    mem_free(l->sums);
    mem_free(l->rules);
    mem_free(l->moves);
    arena_release(&l->memory);
}

/* ---- A push ---- */

static int run_lists(lists *l, kv_err *e)
{
    int64_t begin = call_trace_begin(l->call);
    int rc = l->ncodes ? l->gpu->run(l->id, GPU_QUANTISE_SUM, l->codes, l->ncodes, e) : KV_OK;
    if (!rc)
        rc = run_sums(l, e);
    if (!rc && l->ncodes + l->nsums > 0)
        call_trace_device(l->call, begin, l->ncodes ? "quantise" : "sum", l->gpu, l->id);
    begin = call_trace_begin(l->call);
    if (!rc && l->nrules) {
        rc = plan_gpu_run(l->gpu, l->id, l->rules, l->nrules, e);
        call_trace_device(l->call, begin, "update", l->gpu, l->id);
    }
    return rc;
}

/* Outs that the GPUs do not copy to together. */
static int copy_outs(lists *l, together *t, kv_array *const *outs, int64_t n, const kv_array *from,
                     bool listed, kv_err *e)
{
    bool *left = t && listed ? arena_alloc(&l->memory, (size_t)n * sizeof *left, e) : NULL;
    int rc = t && listed && !left ? KV_E_MEMORY : KV_OK;
    if (!rc && left)
        rc = together_copy(t, outs, n, from, left, e);
    for (int64_t i = 0; i < n && !rc; i++)
        if (!left || left[i])
            rc = copy_to(l, outs[i], from, listed, e);
    return rc;
}

/* The groups whose keys lie on a device, which are marked. */
static int push_on(call *c, const gpu_ops *gpu, int id, int64_t n, const void *const *sums_of,
                   together *copies, kv_err *e)
{
    lists l = {.call = c, .gpu = gpu, .id = id, .sums_of = sums_of};
    l.codes = mem_alloc(n, sizeof *l.codes, e);
    l.sums = mem_alloc(n, sizeof *l.sums, e);
    l.rules = mem_alloc(n, sizeof *l.rules, e);
    int rc = l.codes && l.sums && l.rules ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < c->ngroups && !rc; i++) {
        call_group *g = &c->groups[i];
        if (g->share != CALL_ON_GPU || mirror_gpu(g->target) != id)
            continue;
        rc = add_group(&l, g, e);
    }
    if (!rc)
        rc = run_lists(&l, e);
    for (int64_t i = 0; i < c->ngroups && !rc; i++) {
        const call_group *g = &c->groups[i];
        if (g->share != CALL_ON_GPU || mirror_gpu(g->target) != id)
            continue;
        rc = copy_outs(&l, copies, c->outs + g->first_out, g->nouts, g->target, true, e);
    }
    if (!rc)
        rc = run_moves(&l, e);
    release(&l);
    return rc;
}

/* An event for each device whose keys took part. */
static void trace_together(const call *c, int64_t begin, const char *name, const together *t)
{
    for (int id = 0; id < GPU_MOST && t->keys_on; id++)
        if (t->keys_on >> id & 1)
            call_trace_device(c, begin, name, t->room.gpu, id);
}

/* Every group's sum of values on several GPUs, in its key's place where nothing else happens. */
static int sum_together(call *c, together *t, const void **sums_of, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < c->ngroups && !rc; i++) {
        const call_group *g = &c->groups[i];
        void *dst = NULL;
        if (g->share != CALL_ON_GPU || g->n == 1)
            continue;
        if (!c->update.state)
            rc = mirror_device(g->target, MIRROR_WRITE, &dst, e);
        if (!rc)
            rc = together_sum(t, c, g, mirror_gpu(g->target), dst, &sums_of[i], e);
    }
    return rc ? rc : together_run(t, false, e);
}

/* What a device after the other does; together, sums come before that and copies behind it. */
static int push_all(call *c, const int64_t *count, kv_err *e)
{
    const gpu_ops *gpu = gpu_find(e);
    together sums = {.room.gpu = gpu}, copies = {.room.gpu = gpu};
    const void **sums_of = NULL;
    int64_t begin = call_trace_begin(c);
    int rc = gpu ? KV_OK : KV_E_UNSUPPORTED;
    if (!rc && c->together && !(sums_of = mem_zalloc(c->ngroups, sizeof *sums_of, e)))
        rc = KV_E_MEMORY;
    if (!rc && c->together)
        rc = sum_together(c, &sums, sums_of, e);
    trace_together(c, begin, "sum together", &sums);
    for (int id = 0; id < GPU_MOST && !rc; id++)
        if (count[id] > 0)
            rc = push_on(c, gpu, id, count[id], sums_of, c->together ? &copies : NULL, e);
    begin = call_trace_begin(c);
    if (!rc)
        rc = together_run(&copies, true, e);
    trace_together(c, begin, "copy together", &copies);
    together_release(&sums);
    together_release(&copies);
    mem_free(sums_of);
    return rc;
}

/* What the host's code works on. */
static int bring_group(const call *c, const call_group *g, kv_err *e)
{
    updater_arrays u;
    int rc = mirror_host(g->target, c->update.state ? MIRROR_CHANGE : MIRROR_WRITE, e);
    for (int64_t i = 0; i < g->n && !rc && !g->sum; i++)
        rc = mirror_host(c->values[g->first + i], MIRROR_READ, e);
    for (int64_t i = 0; i < g->nouts && !rc; i++)
        rc = mirror_host(c->outs[g->first_out + i], MIRROR_WRITE, e);
    if (!rc)
        rc = mirror_host(g->source, MIRROR_READ, e);
    if (!rc)
        rc = mirror_host(g->sum, MIRROR_READ, e);
    if (rc || !updater_rule_arrays(c, g, &u))
        return rc;
    for (int i = 0; i < u.n && !rc; i++)
        rc = mirror_host(u.items[i], MIRROR_CHANGE, e);
    return rc ? rc : mirror_host(u.held, MIRROR_CHANGE, e);
}

/* ---- What failed ---- */

/* A key that a failed call was to write has lost its value, until one replaces it. */
static int check_kept(const call *c, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    for (int64_t i = 0; i < c->ngroups; i++) {
        const call_group *g = &c->groups[i];
        const kv_array *stored = g->source ? g->source : g->target;
        if (!stored || !stored->unfilled || (!c->pulls && !c->update.state))
            continue;
        kv_err_set(e, KV_E_IO, "key %s lost its value when a GPU failed in an earlier call",
                   slot_key_text(text, &g->key));
        kv_err_hint(e,
                    "a rollback or a stored file brings it back, as does a push without updater");
        kv_err_key(e, &g->key);
        return KV_E_IO;
    }
    return KV_OK;
}

static void mark(kv_array *const *arrays, int64_t n, int code)
{
    for (int64_t i = 0; i < n; i++)
        if (arrays[i]->unfilled != code)
            arrays[i]->unfilled = (uint8_t)code;
}

/* What the call was to write cannot be read if it failed, and can if it did not. */
static int mark_written(const call *c, int rc)
{
    for (int64_t i = 0; i < c->ngroups; i++) {
        const call_group *g = &c->groups[i];
        if (c->pulls)
            mark(c->values + g->first, g->n, rc);
        else if (g->target)
            mark((kv_array *const *)&g->target, 1, rc);
        mark(c->outs + g->first_out, g->nouts, rc);
    }
    return rc;
}

static int push_groups(call *c, bool *all, kv_err *e)
{
    int64_t count[GPU_MOST] = {0};
    int rc = KV_OK;
    *all = true;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        if (g->share != CALL_NOTHING && push_can(c, g)) {
            g->share = CALL_ON_GPU;
            count[mirror_gpu(g->target)]++;
        } else {
            *all = false;
        }
    }
    rc = push_all(c, count, e);
    if (!rc && !*all && c->update.state)
        rc = call_gpu_rows_push(c, e);
    *all = true;
    for (int64_t i = 0; i < c->ngroups && !rc; i++) {
        const call_group *g = &c->groups[i];
        if (g->share == CALL_ON_GPU)
            continue;
        *all = false;
        if (c->compress.state)
            rc = compress_bring(c, g, e);
        if (!rc)
            rc = bring_group(c, g, e);
    }
    return rc;
}

int call_gpu_push(call *c, bool *all, kv_err *e)
{
    int rc = check_kept(c, e);
    return mark_written(c, rc ? rc : push_groups(c, all, e));
}

int call_gpu_prepare(call *c, kv_err *e)
{
    const plan *last = NULL;
    int last_id = -1, rc = KV_OK;
    for (int64_t i = 0; i < c->ngroups && !rc; i++)
        rc = take_places(c, &c->groups[i], e);
    for (int64_t i = 0; i < c->ngroups && !rc; i++) {
        const call_group *g = &c->groups[i];
        const plan *p = g->update ? g->update->plan : NULL;
        if (call_gpu_rows_is(g))
            rc = call_gpu_rows_prepare(g, e);
        if (!p || call_gpu_rows_is(g) || !push_can(c, g))
            continue;
        int id = mirror_gpu(g->target);
        rc = plan_gpu_prepare(gpu_find(e), id, p, id == last_id ? last : NULL, e);
        last = p;
        last_id = id;
    }
    return rc;
}

/* ---- A pull ---- */

static bool pull_can(const call *c, const call_group *g)
{
    bool any = mirror_has(g->target);
    for (int64_t i = 0; i < g->n; i++)
        any |= mirror_has(c->values[g->first + i]);
    return any && sparse_is_full(g->target);
}

/* Copies within a device wait in its list, which is launched when another one's turn comes. */
static int pull_group(lists *l, together *t, const call_group *g, kv_err *e)
{
    const call *c = l->call;
    int rc = KV_OK, id = mirror_gpu(g->target);
    if (id >= 0 && id != l->id) {
        rc = run_moves(l, e);
        l->nmoves = 0;
        l->id = id;
    }
    return rc ? rc
              : copy_outs(l, id >= 0 ? t : NULL, c->values + g->first, g->n, g->target,
                          !c->op.repeats, e);
}

/* Host memory of a group that is not of one storage. */
static int bring_pull(const call *c, const call_group *g, kv_err *e)
{
    int rc = mirror_host(g->target, MIRROR_READ, e);
    for (int64_t j = 0; j < g->n && !rc; j++)
        if (c->values[g->first + j]->storage == KV_DEFAULT)
            rc = mirror_host(c->values[g->first + j], MIRROR_WRITE, e);
    return rc;
}

/* Where an out stands in several pairs their order counts, so all are copied one by one. */
static int pull_groups(call *c, bool *all, kv_err *e)
{
    lists l = {.call = c, .gpu = gpu_find(e), .id = -1};
    together copies = {.room.gpu = l.gpu};
    int rc = l.gpu ? KV_OK : KV_E_UNSUPPORTED;
    *all = true;
    for (int64_t i = 0; i < c->ngroups && !rc; i++) {
        call_group *g = &c->groups[i];
        if (pull_can(c, g) || c->op.repeats) {
            rc = pull_group(&l, c->together ? &copies : NULL, g, e);
            g->share = CALL_ON_GPU;
        } else {
            rc = bring_pull(c, g, e);
            *all = false;
        }
    }
    if (!rc)
        rc = run_moves(&l, e);
    int64_t begin = call_trace_begin(c);
    if (!rc)
        rc = together_run(&copies, true, e);
    trace_together(c, begin, "copy together", &copies);
    together_release(&copies);
    release(&l);
    return rc;
}

int call_gpu_pull(call *c, bool *all, kv_err *e)
{
    int rc = check_kept(c, e);
    return mark_written(c, rc ? rc : pull_groups(c, all, e));
}
