/* Passes as lists of jobs. */
#include "vm/plan_gpu.h"

#include <string.h>

#include "base/mem.h"
#include "vm/plan_run.h"
#include "vm/plan_text.h"

static const char kernel_name[] = "kv_rule";

/* What the device's memory holds besides the arrays, of an item with sums in a pass. */
typedef struct sums {
    void *terms[PLAN_MAX_NUMBERS], *blocks[PLAN_MAX_NUMBERS];
} sums;

typedef struct run {
    const gpu_ops *gpu;
    int id;
    const plan_gpu_item *items;
    int64_t n;
    arena memory;    /* of what follows, and of the jobs' lists */
    gpu_job *jobs;
    const gpu_rule **rules;
    shared *numbers; /* of items whose plans have numbers, one each; or NULL */
    sums *sums;      /* likewise */
} run;

bool plan_gpu_possible(const plan *p)
{
    return plan_text_possible(p);
}

static int find_rule(const gpu_rule **out, const gpu_ops *gpu, int id, const plan *p, int pass,
                     kv_err *e)
{
    buf text = {0};
    plan_text(&text, p, pass, kernel_name);
    int rc = buf_check(&text, e);
    if (!rc)
        rc = gpu->compile(id, buf_text(&text), out, e);
    buf_release(&text);
    return rc;
}

int plan_gpu_prepare(const gpu_ops *gpu, int id, const plan *p, kv_err *e)
{
    const gpu_rule *rule;
    int rc = KV_OK;
    for (int i = 0; i < p->npasses && !rc; i++)
        if (p->pass[i].elements)
            rc = find_rule(&rule, gpu, id, p, i, e);
    return rc;
}

/* ---- Jobs ---- */

/* Where the array of a slot lies; the texts of other slots do not ask for it. */
static void *place_of(const run *r, int64_t item, const plan_pass *pass, int slot)
{
    const plan_arrays *a = r->items[item].arrays;
    if (slot >= PLAN_PRIVATE + PLAN_MAX_NUMBERS)
        return r->sums[item].terms[slot - PLAN_PRIVATE - PLAN_MAX_NUMBERS];
    slot = slot < PLAN_ROW_STATE ? slot % PLAN_PRESENT : slot;
    (void)pass;
    if (slot == PLAN_STORED)
        return a->stored;
    if (slot == PLAN_WEIGHT)
        return a->weight;
    return slot >= PLAN_STATE && slot < PLAN_WEIGHT ? a->states[slot - PLAN_STATE] : NULL;
}

static int add_words(run *r, int64_t i, int pass, kv_err *e)
{
    const plan *p = r->items[i].plan;
    gpu_job *job = &r->jobs[i];
    bool again = i > 0 && r->items[i - 1].plan == p && plan_text_is_shared(p, pass);
    job->nnumbers = plan_text_words(p, pass);
    if (again) {
        job->numbers = r->jobs[i - 1].numbers;
        return KV_OK;
    }
    double *words = arena_alloc(&r->memory, (size_t)job->nnumbers * sizeof *words, e);
    if (!words)
        return KV_E_MEMORY;
    plan_text_fill(words, p, pass, r->numbers ? r->numbers[i].number : NULL,
                   r->items[i].arrays->seed, r->items[i].arrays->t);
    job->numbers = words;
    return KV_OK;
}

static int make_job(run *r, int64_t i, int pass, kv_err *e)
{
    const plan_gpu_item *item = &r->items[i];
    const plan_pass *of = &item->plan->pass[pass];
    void **places = arena_alloc(&r->memory, (size_t)(of->nslots + 1) * sizeof *places, e);
    if (!places)
        return KV_E_MEMORY;
    for (int s = 0; s < of->nslots; s++)
        places[s] = place_of(r, i, of, of->slot[s]);
    r->jobs[i] = (gpu_job){.n = item->arrays->size,
                           .src = item->values,
                           .nsrc = item->nvalues,
                           .more = places,
                           .nmore = of->nslots};
    int rc = add_words(r, i, pass, e);
    if (rc || (i > 0 && r->rules[i - 1] && r->items[i - 1].plan == item->plan)) {
        r->rules[i] = rc ? NULL : r->rules[i - 1];
        return rc;
    }
    return find_rule(&r->rules[i], r->gpu, r->id, item->plan, pass, e);
}

/* ---- Sums ---- */

static int64_t nchunks_of(const plan_gpu_item *item)
{
    int64_t size = item->arrays->size;
    return size / PLAN_CHUNK + (size % PLAN_CHUNK != 0);
}

/* Every block of the device's that is for the sums of a pass. */
static int take_sums(run *r, int64_t i, const plan_pass *pass, kv_err *e)
{
    const plan_gpu_item *item = &r->items[i];
    int64_t n = item->arrays->size > 0 ? item->arrays->size : 1;
    int rc = KV_OK;
    for (int s = 0; s < pass->nsums && !rc; s++) {
        int64_t each = (int64_t)plan_run_number_bytes(item->plan, pass->sum[s]);
        rc = r->gpu->alloc(r->id, n * each, &r->sums[i].terms[s], e);
        if (!rc)
            rc = r->gpu->alloc(r->id, (nchunks_of(item) + 1) * (int64_t)sizeof(double),
                               &r->sums[i].blocks[s], e);
    }
    return rc;
}

static void give_sums(run *r)
{
    for (int64_t i = 0; r->sums && i < r->n; i++) {
        for (int s = 0; s < PLAN_MAX_NUMBERS; s++) {
            if (r->sums[i].terms[s])
                r->gpu->free(r->id, r->sums[i].terms[s]);
            if (r->sums[i].blocks[s])
                r->gpu->free(r->id, r->sums[i].blocks[s]);
        }
        r->sums[i] = (sums){0};
    }
}

/* The sums of the chunks of item i, as one list. */
static int sum_chunks(run *r, int64_t i, const plan_pass *pass, kv_err *e)
{
    gpu_job jobs[PLAN_MAX_NUMBERS];
    const plan_gpu_item *item = &r->items[i];
    for (int s = 0; s < pass->nsums; s++)
        jobs[s] = (gpu_job){.dst = r->sums[i].blocks[s],
                            .n = nchunks_of(item),
                            .row = item->arrays->size,
                            .src = (const void *const *)&r->sums[i].terms[s],
                            .nsrc = 1,
                            .from = prog_dtype((prog_type)item->plan->number_type[pass->sum[s]])};
    return pass->nsums ? r->gpu->run(r->id, GPU_SUM_CHUNKS, jobs, pass->nsums, e) : KV_OK;
}

static int join_sums(run *r, int64_t i, const plan_pass *pass, kv_err *e)
{
    shared *own = &r->numbers[i];
    int64_t n = nchunks_of(&r->items[i]);
    int rc = KV_OK;
    own->nchunks = n;
    own->blocks = mem_alloc(n * pass->nsums + 1, sizeof(double), e);
    if (!own->blocks)
        return KV_E_MEMORY;
    for (int s = 0; s < pass->nsums && !rc && n > 0; s++)
        rc = r->gpu->copy_out(r->id, own->blocks + s * n, r->sums[i].blocks[s],
                              n * (int64_t)sizeof(double), e);
    if (!rc)
        plan_run_join(own, pass);
    mem_free(own->blocks);
    return rc;
}

/* The numbers that a pass reads, from those of the passes before. */
static int make_numbers(run *r, int64_t i, const plan_pass *pass, kv_err *e)
{
    if (!pass->numbers)
        return KV_OK;
    void *scratch = mem_alloc_data(prog_scratch_bytes(pass->numbers), e);
    if (!scratch)
        return KV_E_MEMORY;
    prog_run(pass->numbers, r->numbers[i].cell, 1, scratch);
    mem_free(scratch);
    return KV_OK;
}

/* ---- Passes ---- */

/* Jobs with work on elements, launched as far as neighbours have one rule. */
static int launch(run *r, int pass, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0, end; i < r->n && !rc; i = end) {
        for (end = i + 1; end < r->n && r->rules[end] == r->rules[i]; end++)
            ;
        if (r->rules[i])
            rc = r->gpu->apply(r->id, r->rules[i], r->jobs + i, end - i, e);
    }
    (void)pass;
    return rc;
}

static const plan_pass *pass_of(const run *r, int64_t i, int pass)
{
    const plan *p = r->items[i].plan;
    return pass < p->npasses ? &p->pass[pass] : NULL;
}

static int run_pass(run *r, int pass, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < r->n && !rc; i++) {
        const plan_pass *of = pass_of(r, i, pass);
        r->rules[i] = NULL;
        if (of && r->numbers)
            rc = make_numbers(r, i, of, e);
        if (!rc && of && of->nsums)
            rc = take_sums(r, i, of, e);
        if (!rc && of && of->elements)
            rc = make_job(r, i, pass, e);
    }
    if (!rc)
        rc = launch(r, pass, e);
    for (int64_t i = 0; i < r->n && !rc; i++)
        if (pass_of(r, i, pass))
            rc = sum_chunks(r, i, pass_of(r, i, pass), e);
    for (int64_t i = 0; i < r->n && !rc; i++)
        if (r->numbers && pass_of(r, i, pass) && pass_of(r, i, pass)->nsums)
            rc = join_sums(r, i, pass_of(r, i, pass), e);
    give_sums(r);
    return rc;
}

static int begin_numbers(run *r, kv_err *e)
{
    r->numbers = mem_zalloc(r->n, sizeof *r->numbers, e);
    r->sums = mem_zalloc(r->n, sizeof *r->sums, e);
    if (!r->numbers || !r->sums)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < r->n; i++) {
        shared *s = &r->numbers[i];
        s->p = r->items[i].plan;
        s->a = r->items[i].arrays;
        for (int k = 0; k < 2 * PLAN_MAX_NUMBERS; k++)
            s->cell[k] = &s->number[k];
    }
    return KV_OK;
}

int plan_gpu_run(const gpu_ops *gpu, int id, const plan_gpu_item *items, int64_t n, kv_err *e)
{
    run r = {.gpu = gpu, .id = id, .items = items, .n = n};
    int passes = 0, rc = KV_OK;
    bool numbers = false;
    for (int64_t i = 0; i < n; i++) {
        const plan *p = items[i].plan;
        passes = p->npasses > passes ? p->npasses : passes;
        numbers |= p->nnumbers > 0;
    }
    r.jobs = mem_alloc(n, sizeof *r.jobs, e);
    r.rules = mem_zalloc(n, sizeof *r.rules, e);
    if (!r.jobs || !r.rules)
        rc = KV_E_MEMORY;
    if (!rc && numbers)
        rc = begin_numbers(&r, e);
    for (int pass = 0; pass < passes && !rc; pass++)
        rc = run_pass(&r, pass, e);
    mem_free(r.jobs);
    mem_free(r.rules);
    mem_free(r.numbers);
    mem_free(r.sums);
    arena_release(&r.memory);
    return rc;
}
