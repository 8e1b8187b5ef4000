/* Makes jobs of groups. A push has three lists of them: sums, rules, copies to the outs. */
#include "core/call.h"

#include "array/gpu_list.h"
#include "array/mirror.h"
#include "array/sparse.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/compress.h"
#include "core/updater.h"
#include "vm/plan_gpu.h"

/* ---- Several GPUs together ---------------------------------------------------------------------
 *
 * Sums and copies in which several GPUs work together, through the group entries of their table:
 * all jobs of one set of devices, whose bits are the set, are one group. For the type nccl, whose
 * values lie on one GPU each. */

/* All zero, but for list.gpu, is none. */
typedef struct together {
    uint64_t keys_on; /* the devices of the keys, as bits */
    struct together_job {
        uint64_t set; /* of devices, as bits */
        gpu_group_job job;
    } *jobs;
    int64_t n, cap;
    gpu_list list; /* memory of the jobs, blocks for sums, and their copies to keys elsewhere */
} together;

static uint64_t bit_of(int id)
{
    return (uint64_t)1 << id;
}

/* The number of devices of the set that have a lower id. */
static int index_in(uint64_t set, int id)
{
    return __builtin_popcountll(set & (bit_of(id) - 1));
}

/* A job for a set, whose places are for the caller to fill. */
static int add_job(together *t, uint64_t set, const gpu_group_job *as, void ***places, kv_err *e)
{
    *places = arena_alloc(&t->list.memory, (size_t)__builtin_popcountll(set) * sizeof **places, e);
    TRY(*places ? mem_grow(&t->jobs, &t->cap, t->n + 1, sizeof *t->jobs, e) : KV_E_MEMORY);
    t->jobs[t->n] = (struct together_job){set, *as};
    t->jobs[t->n++].job.places = *places;
    return KV_OK;
}

/* Chooses the memory of a sum: its key's, or when none of the values is on that device, new memory
 * on the device of the first value. */
static int place_sum(together *t, gpu_group_job *job, uint64_t set, int first, int id, void *dst,
                     const void **out, kv_err *e)
{
    int64_t bytes = job->n * kv_dtype_bytes(job->dtype);
    bool near = set & bit_of(id);
    TRY(dst ? KV_OK : gpu_list_block_new(&t->list, id, bytes, &dst, e));
    *out = job->dst = dst;
    job->root = index_in(set, near ? id : first);
    if (near)
        return KV_OK;
    TRY(gpu_list_block_new(&t->list, first, bytes, &job->dst, e));
    return gpu_list_copy(&t->list, id, dst, first, job->dst, bytes, e);
}

/* Adds the sum of a group's values, one on each of several devices. It will be at dst, on the
 * device id, or where dst is NULL in a block there. Errors: memory, those of a device. */
static int together_sum(together *t, const call *c, const call_group *g, int id, void *dst,
                        const void **out, kv_err *e)
{
    kv_array *const *values = c->values + g->first;
    gpu_group_job job = {.n = g->target->size, .dtype = (kv_dtype)g->target->dtype};
    void **places;
    uint64_t set = 0;
    for (int64_t i = 0; i < g->n; i++)
        set |= bit_of(mirror_gpu(values[i]));
    kv_assert(__builtin_popcountll(set) == g->n, "%lld values of a key lie on %d GPUs together",
              (long long)g->n, __builtin_popcountll(set));
    t->keys_on |= bit_of(id);
    TRY(place_sum(t, &job, set, mirror_gpu(values[0]), id, dst, out, e));
    if (job.n == 0)
        return KV_OK;
    TRY(add_job(t, set, &job, &places, e));
    for (int64_t i = 0; i < g->n; i++)
        TRY(mirror_device(values[i], MIRROR_READ, &places[index_in(set, mirror_gpu(values[i]))],
                          e));
    return KV_OK;
}

/* The devices of outs that can take part. */
static uint64_t others(kv_array *const *outs, int64_t n, const kv_array *from, bool *left)
{
    uint64_t set = bit_of(mirror_gpu(from));
    for (int64_t i = 0; i < n; i++) {
        bool can = mirror_has(outs[i]) && outs[i]->dtype == from->dtype &&
                   !(set & bit_of(mirror_gpu(outs[i])));
        left[i] = !can;
        if (can)
            set |= bit_of(mirror_gpu(outs[i]));
    }
    return set & ~bit_of(mirror_gpu(from));
}

/* Adds copies of a group's stored array, on one device, to n outs on other devices, one on each
 * of them, in the dtype stored; left[i] becomes false for those. Errors: as above. */
static int together_copy(together *t, kv_array *const *outs, int64_t n, const kv_array *from,
                         bool *left, kv_err *e)
{
    gpu_group_job job = {.n = from->size, .dtype = (kv_dtype)from->dtype};
    uint64_t set = others(outs, n, from, left);
    void **places;
    int root = mirror_gpu(from);
    if (!set || job.n == 0)
        return KV_OK;
    set |= bit_of(root);
    t->keys_on |= bit_of(root);
    job.root = index_in(set, root);
    TRY(add_job(t, set, &job, &places, e));
    TRY(mirror_device(from, MIRROR_READ, &places[job.root], e));
    for (int64_t i = 0; i < n; i++)
        if (!left[i])
            TRY(mirror_device(outs[i], MIRROR_WRITE, &places[index_in(set, mirror_gpu(outs[i]))],
                              e));
    return KV_OK;
}

/* Runs the jobs of job number i's set, and takes them off the list. jobs: room for all of them. */
static int run_set(const together *t, int64_t i, bool copies, gpu_group_job *jobs, kv_err *e)
{
    int ids[GPU_MOST], nids = 0;
    int64_t n = 0;
    uint64_t set = t->jobs[i].set;
    for (int id = 0; id < GPU_MOST; id++)
        if (set & bit_of(id))
            ids[nids++] = id;
    kv_assert(nids > 1, "%d GPU works together with itself", nids);
    for (; i < t->n; i++) {
        if (t->jobs[i].set != set)
            continue;
        jobs[n++] = t->jobs[i].job;
        t->jobs[i].set = 0;
    }
    return copies ? t->list.gpu->group_copy(ids, nids, jobs, n, e)
                  : t->list.gpu->group_sum(ids, nids, jobs, n, e);
}

static void together_release(together *t)
{
    mem_free(t->jobs);
    gpu_list_release(&t->list);
    *t = (together){0};
}

/* ---- The work of a call ---- */

/* The work of a call that GPUs do. */
typedef struct work {
    call *call;
    gpu_list list;
    const void **inputs; /* of each value where its elements are: a list for each group */
    const void **sums;   /* NULL, or of each group where the GPUs sum it together, or NULL */
    together to_sum, to_copy;
} work;

static int begin(work *w, call *c, kv_err *e)
{
    *w = (work){.call = c};
    int rc = gpu_list_begin(&w->list, e);
    w->to_sum.list.gpu = w->to_copy.list.gpu = w->list.gpu;
    return rc;
}

static void release(work *w)
{
    together_release(&w->to_sum);
    together_release(&w->to_copy);
    gpu_list_release(&w->list);
    mem_free(w->sums);
}

static int run_list(work *w, const char *name, kv_err *e)
{
    uint64_t devices = gpu_list_devices(&w->list);
    int64_t begin = call_trace_begin(w->call);
    TRY(gpu_list_run(&w->list, e));
    call_trace_devices(w->call, begin, name, w->list.gpu, devices);
    return KV_OK;
}

static int run_together(work *w, together *t, const char *name, kv_err *e)
{
    int64_t begin = call_trace_begin(w->call);
    own_mem gpu_group_job *jobs = t->n > 0 ? mem_alloc(t->n, sizeof *jobs, e) : NULL;
    TRY(jobs || t->n == 0 ? KV_OK : KV_E_MEMORY);
    for (int64_t i = 0; i < t->n; i++)
        if (t->jobs[i].set)
            TRY(run_set(t, i, t == &w->to_copy, jobs, e));
    TRY(gpu_list_run(&t->list, e));
    call_trace_devices(w->call, begin, name, w->list.gpu, t->keys_on);
    return KV_OK;
}

/* ---- Groups that a GPU can do ---- */

/* The rows that the input of a rule has. */
static plan_input input_of(const call_group *g)
{
    if (!g->sum || sparse_is_full(g->sum))
        return PLAN_INPUT_ALL;
    return g->update->rows_present ? PLAN_INPUT_PRESENT : PLAN_INPUT_SPREAD;
}

/* Not a part of push_can, most of whose calls are of pushes without rules. */
static __attribute__((noinline)) bool rule_can(const call *c, const call_group *g)
{
    updater_arrays u;
    int id = mirror_gpu(g->target);
    if (!updater_rule_arrays(c, g, &u) || u.prints || g->target->size == 0 ||
        !plan_text_possible(g->update->plan, input_of(g)) || (!g->sum && !g->same_dtype))
        return false;
    bool can = mirror_gpu(u.held) == id;
    for (int i = 0; i < u.n; i++)
        can &= mirror_gpu(u.items[i]) == id;
    return can;
}

/* Values that lie elsewhere, in host memory too, are copied to the key's GPU; but those of which
 * codes are made must be there. */
static bool push_can(const call *c, const call_group *g)
{
    if (!g->target || !mirror_has(g->target) || !sparse_is_full(g->target) ||
        (c->compress.state && !compress_gpu_can(c, g)))
        return false;
    if (c->update.state)
        return rule_can(c, g);
    return !g->sparse && !g->mixed && (g->same_dtype || g->n == 1);
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

static int64_t bytes_of(const kv_array *a)
{
    return sparse_held(a) * kv_dtype_bytes((kv_dtype)a->dtype);
}

/* Calls that are pending have such places too, and give them back: where there is no memory they
 * are waited for. */
static int take_place(call *c, int64_t value, int64_t bytes, int id, kv_err *e)
{
    kv_err why = {0};
    void *block = NULL;
    TRY(c->places.state ? KV_OK : new_places(c, e));
    places *p = c->places.state;
    if (!kv_assert(value < p->n, "value %lld of %lld gets a place", (long long)value,
                   (long long)p->n))
        return kv_assert_report(e);
    int rc = KV_OK;
    if (p->gpu->alloc(id, bytes, &block, &why)) {
        engine_wait_group(&c->pool->group, 0);
        rc = p->gpu->alloc(id, bytes, &block, e);
    }
    p->of[value].block = block;
    p->of[value].id = id;
    return rc;
}

/* Value number i of a group's ninputs: its row_sparse sum is the only one. */
static const kv_array *input_at(const call *c, const call_group *g, int64_t i)
{
    return g->sum ? g->sum : c->values[g->first + i];
}

static int64_t ninputs(const call_group *g)
{
    return g->sum ? 1 : g->n;
}

/* Of a group that will run on a GPU. What GPUs sum together is in places of their own. */
static int take_places(call *c, const call_group *g, kv_err *e)
{
    int id = mirror_gpu(g->target);
    if (c->together && g->n > 1)
        return KV_OK;
    for (int64_t i = 0; i < ninputs(g); i++) {
        const kv_array *a = input_at(c, g, i);
        int64_t bytes = mirror_gpu(a) == id ? 0 : bytes_of(a);
        if (bytes > 0)
            TRY(take_place(c, g->first + i, bytes, id, e));
    }
    return KV_OK;
}

int call_gpu_prepare(call *c, kv_err *e)
{
    const call_group *last = NULL;
    for (int64_t i = 0; i < c->ngroups; i++) {
        const call_group *g = &c->groups[i];
        if (!push_can(c, g))
            continue;
        TRY(take_places(c, g, e));
        if (!g->update)
            continue;
        int id = mirror_gpu(g->target);
        bool alike = last && mirror_gpu(last->target) == id && input_of(last) == input_of(g);
        TRY(plan_gpu_prepare(gpu_find(e), id, g->update->plan, input_of(g),
                             alike ? last->update->plan : NULL, e));
        last = g;
    }
    return KV_OK;
}

/* Copies an input of another device to its place on the key's. Apart from place_inputs because most
 * inputs are there. */
static __attribute__((noinline)) int copy_input(const work *w, const call_group *g, int64_t i,
                                                const void **out, kv_err *e)
{
    const kv_array *a = input_at(w->call, g, i);
    const places *p = w->call->places.state;
    int id = mirror_gpu(g->target);
    void *block = NULL, *place = p ? p->of[g->first + i].block : NULL;
    int rc = mirror_has(a) ? mirror_device(a, MIRROR_READ, &block, e) : KV_OK;
    *out = place ? place : block;
    if (!kv_assert(place || bytes_of(a) == 0, "a value of gpu(%d) has no place on gpu(%d)",
                   mirror_gpu(a), id))
        return kv_assert_report(e);
    if (place && !mirror_has(a))
        return w->list.gpu->copy_in(id, place, a->data, bytes_of(a), e);
    return rc || !place ? rc : w->list.gpu->copy(id, place, mirror_gpu(a), block, bytes_of(a), e);
}

/* The places of the inputs, or of their sum alone where the GPUs made it together. */
static int place_inputs(work *w, const call_group *g, const void *const **out, int64_t *n,
                        kv_err *e)
{
    int id = mirror_gpu(g->target);
    const void **list = w->inputs + g->first;
    void *block;
    *out = list;
    if (w->sums && w->sums[g - w->call->groups]) {
        *list = w->sums[g - w->call->groups];
        *n = 1;
        return KV_OK;
    }
    *n = ninputs(g);
    for (int64_t i = 0; i < *n; i++) {
        const kv_array *a = input_at(w->call, g, i);
        if (mirror_gpu(a) != id) {
            TRY(copy_input(w, g, i, &list[i], e));
            continue;
        }
        TRY(mirror_device(a, MIRROR_READ, &block, e));
        list[i] = block;
    }
    return KV_OK;
}

/* ---- Sums ---- */

/* Every group's sum of values on several GPUs, in its key's place where nothing else happens. */
static int sum_together(work *w, kv_err *e)
{
    call *c = w->call;
    w->sums = mem_zalloc(c->ngroups, sizeof *w->sums, e);
    if (!w->sums)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < c->ngroups; i++) {
        const call_group *g = &c->groups[i];
        void *dst = NULL;
        if (g->work != CALL_ON_GPU || g->n == 1)
            continue;
        if (!c->update.state)
            TRY(mirror_device(g->target, MIRROR_WRITE, &dst, e));
        TRY(together_sum(&w->to_sum, c, g, mirror_gpu(g->target), dst, &w->sums[i], e));
    }
    return run_together(w, &w->to_sum, "sum together", e);
}

/* The sum of one value that has another dtype is a conversion. */
static int add_sum(work *w, const call_group *g, kv_err *e)
{
    gpu_launch as = {.id = mirror_gpu(g->target), .work = GPU_SUM};
    gpu_job job = {.n = g->target->size,
                   .to = (kv_dtype)g->target->dtype,
                   .from = (kv_dtype)w->call->values[g->first]->dtype};
    TRY(place_inputs(w, g, &job.src, &job.nsrc, e));
    TRY(mirror_device(g->target, MIRROR_WRITE, &job.dst, e));
    if (w->sums && w->sums[g - w->call->groups] == job.dst)
        return KV_OK;
    if (job.to != job.from)
        as.work = GPU_CONVERT;
    return gpu_list_add(&w->list, &as, &job, e);
}

static int run_sums(work *w, kv_err *e)
{
    const call *c = w->call;
    bool codes = c->compress.state != NULL;
    for (int64_t i = 0; i < c->ngroups; i++) {
        const call_group *g = &c->groups[i];
        if (g->work == CALL_ON_GPU && codes) {
            /* their sum is stored as it is where there is no updater */
            gpu_launch as = {.id = mirror_gpu(g->target), .work = GPU_QUANTISE_SUM};
            gpu_job job;
            TRY(compress_gpu_job(w->call, g, &job, &w->list.memory, e));
            TRY(gpu_list_add(&w->list, &as, &job, e));
        } else if (g->work == CALL_ON_GPU && !c->update.state)
            TRY(add_sum(w, g, e));
    }
    return run_list(w, codes ? "quantise" : "sum", e);
}

/* ---- Rules ---- */

/* Brings the arrays of a rule to the key's GPU, and finds out where they are there. A new array
 * begins as the stored one. */
static int place_arrays(const call *c, const call_group *g, plan_arrays *out, kv_err *e)
{
    updater_arrays u;
    TRY(g->source ? array_fill(g->target, g->source, e) : KV_OK);
    updater_rule_arrays(c, g, &u);
    updater_plan_arrays(c, g, out);
    for (int i = 0; i < u.n; i++)
        TRY(mirror_device(u.items[i], MIRROR_CHANGE, &out->states[u.number[i]], e));
    TRY(mirror_device(g->target, MIRROR_CHANGE, &out->weight, e));
    out->stored = out->weight;
    if (u.held != g->target)
        TRY(mirror_device(u.held, MIRROR_CHANGE, &out->stored, e));
    out->input_dtype = (kv_dtype)g->target->dtype;
    out->size = g->target->size;
    out->row = sparse_row(g->target);
    return KV_OK;
}

/* a: all zero before. */
static int make_item(work *w, const call_group *g, plan_gpu_item *out, plan_arrays *a, kv_err *e)
{
    *out = (plan_gpu_item){.plan = g->update->plan, .arrays = a, .input = input_of(g)};
    if (g->sum) {
        out->ids = array_rows(g->sum);
        out->nids = array_nrows(g->sum);
    }
    TRY(place_inputs(w, g, &out->values, &out->nvalues, e));
    return place_arrays(w->call, g, a, e);
}

/* The rules of the keys on one device. items, arrays: room for all groups. */
static int run_rules(work *w, int id, plan_gpu_item *items, plan_arrays *arrays, kv_err *e)
{
    const call *c = w->call;
    int64_t n = 0, begin = call_trace_begin(c);
    for (int64_t i = 0; i < c->ngroups; i++) {
        const call_group *g = &c->groups[i];
        if (g->work != CALL_ON_GPU || mirror_gpu(g->target) != id)
            continue;
        TRY(make_item(w, g, &items[n++], &arrays[i], e));
    }
    TRY(plan_gpu_run(&w->list, id, items, n, e));
    call_trace_devices(c, begin, "update", w->list.gpu, (uint64_t)1 << id);
    return KV_OK;
}

/* ---- Copies to outs ---- */

/* Within a device as a part of the list, else, or where arrays may be written twice, at once. */
static int copy_to(work *w, kv_array *out, const kv_array *from, bool listed, kv_err *e)
{
    void *dst, *src;
    if (out->data == from->data)
        return KV_OK;
    bool near = mirror_has(out) && mirror_gpu(out) == mirror_gpu(from);
    if ((!near || !listed) && mirror_can_copy(out, from))
        return mirror_copy(out, from, e);
    if (!near || !listed) { /* by way of the host, where dtypes and places both differ */
        TRY(mirror_host(from, MIRROR_READ, e));
        TRY(mirror_host(out, MIRROR_WRITE, e));
        sparse_move(out, from);
        return KV_OK;
    }
    TRY(mirror_device(from, MIRROR_READ, &src, e));
    TRY(mirror_device(out, MIRROR_WRITE, &dst, e));
    return gpu_list_convert(&w->list, 0, mirror_gpu(from), dst, (kv_dtype)out->dtype, src,
                            (kv_dtype)from->dtype, out->size, e);
}

/* GPUs that work together copy to those outs that they can. */
static int copy_outs(work *w, kv_array *const *outs, int64_t n, const kv_array *from, bool listed,
                     kv_err *e)
{
    bool group = w->call->together && listed && mirror_has(from);
    bool *left = group ? arena_alloc(&w->list.memory, (size_t)n * sizeof *left, e) : NULL;
    TRY(group && !left ? KV_E_MEMORY : KV_OK);
    if (left)
        TRY(together_copy(&w->to_copy, outs, n, from, left, e));
    for (int64_t i = 0; i < n; i++)
        if (!left || left[i])
            TRY(copy_to(w, outs[i], from, listed, e));
    return KV_OK;
}

static int run_copies(work *w, kv_err *e)
{
    TRY(run_list(w, "copy", e));
    return run_together(w, &w->to_copy, "copy together", e);
}

/* ---- A push ---- */

/* Does the groups whose keys are on GPUs. */
static int push_there(work *w, uint64_t devices, kv_err *e)
{
    call *c = w->call;
    w->inputs = arena_alloc(&w->list.memory, (size_t)c->nvalues * sizeof *w->inputs, e);
    if (!w->inputs)
        return KV_E_MEMORY;
    TRY(c->together ? sum_together(w, e) : KV_OK);
    TRY(run_sums(w, e));
    if (c->update.state) {
        size_t n = (size_t)w->call->ngroups;
        plan_gpu_item *items = arena_alloc(&w->list.memory, n * sizeof *items, e);
        plan_arrays *arrays = arena_alloc(&w->list.memory, n * sizeof *arrays, e);
        TRY(items && arrays ? KV_OK : KV_E_MEMORY);
        for (int id = 0; id < GPU_MOST; id++)
            if (devices >> id & 1)
                TRY(run_rules(w, id, items, arrays, e));
    }
    for (int64_t i = 0; i < c->ngroups && c->nouts > 0; i++) {
        const call_group *g = &c->groups[i];
        if (g->work == CALL_ON_GPU)
            TRY(copy_outs(w, c->outs + g->first_out, g->nouts, g->target, true, e));
    }
    return run_copies(w, e);
}

/* Makes host memory current for a group that the CPU works on. */
static int bring_group(const call *c, const call_group *g, kv_err *e)
{
    updater_arrays u;
    TRY(mirror_host(g->target, c->update.state ? MIRROR_CHANGE : MIRROR_WRITE, e));
    for (int64_t i = 0; i < g->n && !g->sum; i++)
        TRY(mirror_host(c->values[g->first + i], MIRROR_READ, e));
    for (int64_t i = 0; i < g->nouts; i++)
        TRY(mirror_host(c->outs[g->first_out + i], MIRROR_WRITE, e));
    TRY(mirror_host(g->source, MIRROR_READ, e));
    TRY(mirror_host(g->sum, MIRROR_READ, e));
    if (!updater_rule_arrays(c, g, &u))
        return KV_OK;
    for (int i = 0; i < u.n; i++)
        TRY(mirror_host(u.items[i], MIRROR_CHANGE, e));
    return mirror_host(u.held, MIRROR_CHANGE, e);
}

/* ---- Arrays of a failed call ---- */

/* A key that a failed call was to write has lost its value, until one replaces it. */
static int check_kept(const call *c, kv_err *e)
{
    for (int64_t i = 0; i < c->ngroups; i++) {
        const call_group *g = &c->groups[i];
        const kv_array *stored = g->source ? g->source : g->target;
        if (!stored || !stored->unfilled || (!c->pulls && !c->update.state))
            continue;
        return slot_error(
            e, KV_E_IO, &g->key,
            "a rollback or a stored file brings it back, as does a push without updater",
            "key %s lost its value when a GPU failed in an earlier call", SLOT_KEY(&g->key));
    }
    return KV_OK;
}

static void mark(kv_array *const *arrays, int64_t n, int rc)
{
    for (int64_t i = 0; i < n; i++)
        if (arrays[i]->unfilled != rc)
            arrays[i]->unfilled = (uint8_t)rc;
}

/* Marks the arrays that the call writes: readable if it succeeded, an error to their readers if it
 * failed. */
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
    work w;
    uint64_t devices = 0;
    int64_t nthere = 0;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        if (g->work == CALL_NOTHING || !push_can(c, g))
            continue;
        g->work = CALL_ON_GPU;
        devices |= (uint64_t)1 << mirror_gpu(g->target);
        nthere++;
    }
    int rc = begin(&w, c, e);
    if (!rc)
        rc = push_there(&w, devices, e);
    release(&w);
    *all = nthere == c->ngroups;
    for (int64_t i = 0; i < c->ngroups && !*all && !rc; i++) {
        const call_group *g = &c->groups[i];
        if (g->work == CALL_ON_GPU)
            continue;
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

/* ---- A pull ---- */

static bool pull_can(const call *c, const call_group *g)
{
    bool any = mirror_has(g->target);
    for (int64_t i = 0; i < g->n; i++)
        any |= mirror_has(c->values[g->first + i]);
    return any && sparse_is_full(g->target);
}

/* If an out is in several pairs their order counts, so all are copied one by one. */
static int pull_groups(call *c, bool *all, kv_err *e)
{
    OWN(release) work w = {0};
    TRY(begin(&w, c, e));
    *all = true;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        if (pull_can(c, g) || c->op.repeats) {
            TRY(copy_outs(&w, c->values + g->first, g->n, g->target, !c->op.repeats, e));
            g->work = CALL_ON_GPU;
        } else {
            /* Host memory of a group that is not of one storage. */
            TRY(mirror_host(g->target, MIRROR_READ, e));
            for (int64_t j = 0; j < g->n; j++)
                if (c->values[g->first + j]->storage == KV_DEFAULT)
                    TRY(mirror_host(c->values[g->first + j], MIRROR_WRITE, e));
            *all = false;
        }
    }
    return run_copies(&w, e);
}

int call_gpu_pull(call *c, bool *all, kv_err *e)
{
    int rc = check_kept(c, e);
    return mark_written(c, rc ? rc : pull_groups(c, all, e));
}
