/* Passes as lists of jobs: all launches of a call are made up first, with what they need of memory,
 * and then given to the device one behind the other. */
#include "vm/plan_gpu.h"

#include "base/mem.h"
#include "vm/plan_pass.h"
#include "vm/plan_text.h"

enum {
    PLACE_BYTES = 256, /* what blocks of the device's memory are aligned to */
    RECENT = 4         /* items: layers take turns of few kinds of weights */
};

typedef struct launch {
    struct launch *next;
    const gpu_rule *rule; /* or NULL: a work of the device's table */
    gpu_work work;
    gpu_job *jobs; /* room for those that were asked for, n of them given */
    int64_t n;
} launch;

typedef struct run {
    const gpu_ops *gpu;
    int id;
    const plan_gpu_item *items;
    int passes;             /* of the plan that has most */
    const gpu_rule **rules; /* of each item, pass and part: not yet among the launches; or NULL */
    int64_t *offset;        /* of each item: where what its sums need is in the room */
    char *room;
    arena memory; /* of the launches */
    launch *first, **last;
} run;

bool plan_gpu_possible(const plan *p)
{
    return plan_text_possible(p);
}

/* ---- Rules ---- */

static int find_rule(const gpu_rule **out, const gpu_ops *gpu, int id, const plan *p, int pass,
                     plan_part part, kv_err *e)
{
    buf text = {0};
    plan_text(&text, p, pass, part, GPU_RULE_KERNEL);
    int rc = buf_check(&text, e);
    if (!rc)
        rc = gpu->compile(id, buf_text(&text), out, e);
    buf_release(&text);
    return rc;
}

int plan_gpu_prepare(const gpu_ops *gpu, int id, const plan *p, const plan *before, kv_err *e)
{
    const gpu_rule *rule;
    int rc = KV_OK;
    if (before && plan_text_same(p, before))
        return KV_OK;
    for (int i = 0; i < p->npasses; i++)
        for (int part = 0; part < PLAN_PARTS && !rc; part++)
            if (plan_text_has(p, i, part))
                rc = find_rule(&rule, gpu, id, p, i, part, e);
    return rc;
}

static const gpu_rule **rule_at(const run *r, int64_t item, int pass, plan_part part)
{
    return &r->rules[(item * r->passes + pass) * PLAN_PARTS + part];
}

/* One of the last items before this one whose plan has the same texts, or -1: some rules make a
 * plan for every key. */
static int64_t find_same(const run *r, int64_t item)
{
    for (int64_t i = item - 1; i >= 0 && i >= item - RECENT; i--)
        if (plan_text_same(r->items[i].plan, r->items[item].plan))
            return i;
    return -1;
}

static int find_rules(run *r, int64_t item, kv_err *e)
{
    const plan *p = r->items[item].plan;
    int64_t same = find_same(r, item);
    int rc = KV_OK;
    for (int pass = 0; pass < p->npasses; pass++)
        for (int part = 0; part < PLAN_PARTS && !rc; part++) {
            const gpu_rule **rule = rule_at(r, item, pass, part);
            if (same >= 0)
                *rule = *rule_at(r, same, pass, part);
            else if (plan_text_has(p, pass, part))
                rc = find_rule(rule, r->gpu, r->id, p, pass, part, e);
        }
    return rc;
}

/* ---- The room: of each item its numbers, the sums of chunks, then the terms ---- */

static int64_t whole(int64_t bytes)
{
    return (bytes + PLACE_BYTES - 1) / PLACE_BYTES * PLACE_BYTES;
}

static int64_t nchunks_of(const plan_gpu_item *item)
{
    int64_t size = item->arrays->size;
    return size / PLAN_CHUNK + (size % PLAN_CHUNK != 0);
}

static kv_dtype number_dtype(const plan *p, int number)
{
    return prog_dtype((prog_type)p->number_type[number]);
}

static int64_t numbers_bytes(const plan_gpu_item *item)
{
    return whole(item->plan->nnumbers * (int64_t)sizeof(double));
}

static int64_t chunks_bytes(const plan_gpu_item *item)
{
    return whole(nchunks_of(item) * (int64_t)sizeof(double));
}

/* Of the first n sums of a pass, with all chunks' sums before the first one's terms. */
static int64_t sums_bytes(const plan_gpu_item *item, const plan_pass *pass, int n)
{
    int64_t bytes = pass->nsums * chunks_bytes(item);
    for (int s = 0; s < n; s++)
        bytes += whole(item->arrays->size *
                       kv_dtype_bytes(number_dtype(item->plan, pass->sum[s])));
    return bytes;
}

static int64_t item_bytes(const plan_gpu_item *item)
{
    int64_t most = 0;
    for (int i = 0; i < item->plan->npasses; i++) {
        const plan_pass *pass = &item->plan->pass[i];
        int64_t bytes = sums_bytes(item, pass, pass->nsums);
        most = bytes > most ? bytes : most;
    }
    return numbers_bytes(item) + most;
}

static void *numbers_of(const run *r, int64_t item)
{
    return r->items[item].plan->nnumbers ? r->room + r->offset[item] : NULL;
}

static char *chunks_of(const run *r, int64_t item, int sum)
{
    const plan_gpu_item *of = &r->items[item];
    return r->room + r->offset[item] + numbers_bytes(of) + sum * chunks_bytes(of);
}

static void *terms_of(const run *r, int64_t item, const plan_pass *pass, int sum)
{
    return chunks_of(r, item, 0) + sums_bytes(&r->items[item], pass, sum);
}

/* Gives the items from `first` on their offsets, as far as there is room, but one at least; the end
 * of those. */
static int64_t share_room(run *r, int64_t first, int64_t n, int64_t *bytes)
{
    int64_t i = first;
    for (*bytes = 0; i < n; i++) {
        int64_t more = item_bytes(&r->items[i]);
        if (i > first && *bytes + more > r->gpu->scratch)
            break;
        r->offset[i] = *bytes;
        *bytes += more;
    }
    return i;
}

static int take_room(run *r, int64_t n, kv_err *e)
{
    int64_t most = 0, bytes;
    void *block = NULL;
    for (int64_t i = 0; i < n;) {
        i = share_room(r, i, n, &bytes);
        most = bytes > most ? bytes : most;
    }
    int rc = most > 0 ? r->gpu->alloc(r->id, most, &block, e) : KV_OK;
    r->room = block;
    return rc;
}

/* ---- Jobs ---- */

/* A launch without jobs, and room for some. */
static launch *add_launch(run *r, const gpu_rule *rule, gpu_work work, int64_t room, kv_err *e)
{
    launch *l = arena_alloc(&r->memory, sizeof *l, e);
    if (!l)
        return NULL;
    *l = (launch){.rule = rule, .work = work};
    l->jobs = arena_alloc(&r->memory, (size_t)room * sizeof *l->jobs, e);
    if (!l->jobs)
        return NULL;
    *r->last = l;
    r->last = &l->next;
    return l;
}

/* Where the array of a slot lies; the texts of other slots do not ask for it. */
static void *place_of(const run *r, int64_t item, const plan_pass *pass, int slot)
{
    const plan_arrays *a = r->items[item].arrays;
    if (slot >= PLAN_PRIVATE + PLAN_MAX_NUMBERS)
        return terms_of(r, item, pass, slot - PLAN_PRIVATE - PLAN_MAX_NUMBERS);
    slot = slot < PLAN_ROW_STATE ? slot % PLAN_PRESENT : slot;
    if (slot == PLAN_STORED)
        return a->stored;
    if (slot == PLAN_WEIGHT)
        return a->weight;
    return slot >= PLAN_STATE && slot < PLAN_WEIGHT ? a->states[slot - PLAN_STATE] : NULL;
}

/* The arrays of a pass, and the numbers behind them. */
static int add_places(run *r, gpu_job *job, int64_t item, int pass, plan_part part, kv_err *e)
{
    const plan_pass *of = &r->items[item].plan->pass[pass];
    int n = part == PLAN_ELEMENTS ? of->nslots : 0;
    void **places = arena_alloc(&r->memory, (size_t)(n + 1) * sizeof *places, e);
    if (!places)
        return KV_E_MEMORY;
    for (int s = 0; s < n; s++)
        places[s] = place_of(r, item, of, of->slot[s]);
    places[n] = numbers_of(r, item);
    job->more = places;
    job->nmore = n + 1;
    return KV_OK;
}

static int add_words(run *r, gpu_job *job, int64_t item, int pass, plan_part part, kv_err *e)
{
    const plan_gpu_item *of = &r->items[item];
    int64_t n = plan_text_words(of->plan, pass, part);
    double *words = arena_alloc(&r->memory, (size_t)n * sizeof *words, e);
    if (!words)
        return KV_E_MEMORY;
    plan_text_fill(words, of->plan, pass, part, of->arrays->seed, of->arrays->t);
    job->numbers = words;
    job->nnumbers = n;
    return KV_OK;
}

/* The next job of a launch; `before`: the item of the one before, or -1. */
static int add_job(run *r, launch *l, int64_t item, int64_t before, int pass, plan_part part,
                   kv_err *e)
{
    const plan_gpu_item *of = &r->items[item];
    gpu_job *job = &l->jobs[l->n++];
    bool again = before >= 0 && r->items[before].plan == of->plan &&
                 plan_text_is_shared(of->plan, pass, part);
    *job = (gpu_job){.n = 1};
    if (part == PLAN_ELEMENTS)
        *job = (gpu_job){.n = of->arrays->size, .src = of->values, .nsrc = of->nvalues};
    int rc = add_places(r, job, item, pass, part, e);
    if (rc || !again)
        return rc ? rc : add_words(r, job, item, pass, part, e);
    job->numbers = job[-1].numbers;
    job->nnumbers = job[-1].nnumbers;
    return KV_OK;
}

/* ---- Passes ---- */

/* One launch of the items that have a rule here, from item `first` on, which does. */
static int launch_rule(run *r, int64_t first, int64_t end, int pass, plan_part part, kv_err *e)
{
    const gpu_rule *rule = *rule_at(r, first, pass, part);
    int64_t n = 0, before = -1;
    int rc = KV_OK;
    for (int64_t i = first; i < end; i++)
        n += *rule_at(r, i, pass, part) == rule;
    launch *l = add_launch(r, rule, GPU_NWORKS, n, e);
    if (!l)
        return KV_E_MEMORY;
    for (int64_t i = first; i < end && !rc; i++) {
        const gpu_rule **own = rule_at(r, i, pass, part);
        if (*own != rule)
            continue;
        rc = add_job(r, l, i, before, pass, part, e);
        *own = NULL;
        before = i;
    }
    return rc;
}

static int launch_part(run *r, int64_t first, int64_t end, int pass, plan_part part, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = first; i < end && !rc; i++)
        if (*rule_at(r, i, pass, part))
            rc = launch_rule(r, i, end, pass, part, e);
    return rc;
}

static int nsums_of(const run *r, int64_t item, int pass)
{
    const plan *p = r->items[item].plan;
    return pass < p->npasses ? p->pass[pass].nsums : 0;
}

/* Terms become the sums of chunks, and these one number. */
static void add_sum(const run *r, launch *chunks, launch *all, int64_t item, int pass, int sum,
                    const void **from)
{
    const plan_gpu_item *of = &r->items[item];
    const plan_pass *own = &of->plan->pass[pass];
    gpu_job *first = &chunks->jobs[chunks->n++], *second = &all->jobs[all->n++];
    int number = own->sum[sum];
    from[0] = terms_of(r, item, own, sum);
    from[1] = chunks_of(r, item, sum);
    *first = (gpu_job){.dst = chunks_of(r, item, sum),
                       .n = nchunks_of(of),
                       .row = of->arrays->size,
                       .src = &from[0],
                       .nsrc = 1,
                       .to = number_dtype(of->plan, number)};
    *second = *first;
    second->dst = (double *)numbers_of(r, item) + number;
    second->n = 1;
    second->row = first->n;
    second->src = &from[1];
}

static int launch_sums(run *r, int64_t first, int64_t end, int pass, kv_err *e)
{
    int64_t n = 0, k = 0;
    for (int64_t i = first; i < end; i++)
        n += nsums_of(r, i, pass);
    if (n == 0)
        return KV_OK;
    const void **from = arena_alloc(&r->memory, 2 * (size_t)n * sizeof *from, e);
    launch *chunks = from ? add_launch(r, NULL, GPU_SUM_CHUNKS, n, e) : NULL;
    launch *all = chunks ? add_launch(r, NULL, GPU_SUM_ALL, n, e) : NULL;
    if (!all)
        return KV_E_MEMORY;
    for (int64_t i = first; i < end; i++)
        for (int s = 0; s < nsums_of(r, i, pass); s++, k++)
            add_sum(r, chunks, all, i, pass, s, &from[2 * k]);
    return KV_OK;
}

/* All passes of the items that share the room. */
static int launch_passes(run *r, int64_t first, int64_t end, kv_err *e)
{
    int rc = KV_OK;
    for (int pass = 0; pass < r->passes && !rc; pass++) {
        for (int part = 0; part < PLAN_PARTS && !rc; part++)
            rc = launch_part(r, first, end, pass, part, e);
        if (!rc)
            rc = launch_sums(r, first, end, pass, e);
    }
    return rc;
}

static int make_launches(run *r, int64_t n, kv_err *e)
{
    int64_t bytes;
    r->rules = mem_zalloc(n * r->passes * PLAN_PARTS, sizeof *r->rules, e);
    r->offset = mem_alloc(n, sizeof *r->offset, e);
    int rc = r->rules && r->offset ? take_room(r, n, e) : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++)
        rc = find_rules(r, i, e);
    for (int64_t i = 0, end; i < n && !rc; i = end) {
        end = share_room(r, i, n, &bytes);
        rc = launch_passes(r, i, end, e);
    }
    return rc;
}

int plan_gpu_run(const gpu_ops *gpu, int id, const plan_gpu_item *items, int64_t n, kv_err *e)
{
    run r = {.gpu = gpu, .id = id, .items = items};
    r.last = &r.first;
    for (int64_t i = 0; i < n; i++)
        r.passes = items[i].plan->npasses > r.passes ? items[i].plan->npasses : r.passes;
    int rc = make_launches(&r, n, e);
    for (const launch *l = r.first; l && !rc; l = l->next)
        rc = l->rule ? gpu->apply(id, l->rule, l->jobs, l->n, e)
                     : gpu->run(id, l->work, l->jobs, l->n, e);
    if (r.room)
        gpu->free(id, r.room);
    mem_free(r.rules);
    mem_free(r.offset);
    arena_release(&r.memory);
    return rc;
}
