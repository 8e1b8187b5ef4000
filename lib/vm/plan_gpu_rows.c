/* From keys to jobs: a kernel at a time, of all items. */
#include "vm/plan_gpu_rows.h"

#include "base/mem.h"
#include "vm/plan_text_rows.h"

typedef struct run {
    const gpu_ops *gpu;
    int id;
    const plan_gpu_rows_item *items;
    gpu_job *jobs;          /* those of a kernel, */
    const gpu_rule **rules; /* and which each is of */
    arena memory;           /* of what they point at */
} run;

bool plan_gpu_rows_possible(const plan *p)
{
    return plan_text_rows_possible(p);
}

bool plan_gpu_rows_is_by_row(const plan *p)
{
    return plan_text_rows_is_by_row(p);
}

static plan_form form_of(const plan *p, int kernel, plan_input rows)
{
    return plan_text_rows_form(p, kernel, rows == PLAN_INPUT_PRESENT, rows == PLAN_INPUT_SPREAD);
}

static bool has_places(plan_form form)
{
    return form == PLAN_ROWS_SPREAD || form == PLAN_ROWS_SOME;
}

bool plan_gpu_rows_has_places(const plan *p, plan_input rows)
{
    bool any = false;
    for (int i = 0; i < plan_text_rows_kernels(p); i++)
        any |= plan_text_rows_has(p, i) && has_places(form_of(p, i, rows));
    return any;
}

static int find_rule(const gpu_rule **out, const gpu_ops *gpu, int id, const plan *p, int kernel,
                     plan_input rows, kv_err *e)
{
    buf text = {0};
    plan_text_rows(&text, p, kernel, form_of(p, kernel, rows), GPU_RULE_KERNEL);
    int rc = buf_check(&text, e);
    if (!rc)
        rc = gpu->compile(id, buf_text(&text), out, e);
    buf_release(&text);
    return rc;
}

int plan_gpu_rows_prepare(const gpu_ops *gpu, int id, const plan *p, plan_input rows, kv_err *e)
{
    const gpu_rule *rule;
    int rc = KV_OK;
    for (int i = 0; i < plan_text_rows_kernels(p) && !rc; i++)
        if (plan_text_rows_has(p, i))
            rc = find_rule(&rule, gpu, id, p, i, rows, e);
    return rc;
}

/* ---- Jobs ---- */

static void **list_places(run *r, const plan_arrays *a, kv_err *e)
{
    void **places = arena_alloc(&r->memory, PLAN_AT_END * sizeof *places, e);
    if (!places)
        return NULL;
    places[PLAN_AT_STORED] = a->stored;
    places[PLAN_AT_WEIGHT] = a->weight;
    for (int i = 0; i < PLAN_MAX_STATES; i++)
        places[PLAN_AT_STATE + i] = a->states[i];
    return places;
}

/* before: NULL, or the job of an item with the same plan. */
static int add_words(run *r, gpu_job *job, const gpu_job *before, const plan_gpu_rows_item *item,
                     int kernel, kv_err *e)
{
    job->nnumbers = plan_text_rows_words(item->plan, kernel);
    if (before && plan_text_rows_is_shared(item->plan, kernel)) {
        job->numbers = before->numbers;
        return KV_OK;
    }
    double *words = arena_alloc(&r->memory, (size_t)job->nnumbers * sizeof *words, e);
    if (!words)
        return KV_E_MEMORY;
    plan_text_rows_fill(words, item->plan, kernel, item->arrays->seed, item->arrays->t);
    job->numbers = words;
    return KV_OK;
}

/* Job number k, of an item that has the kernel. same: the job before is of the same text. */
static int make_job(run *r, int64_t k, bool same, const plan_gpu_rows_item *item, int kernel,
                    kv_err *e)
{
    const plan_arrays *a = item->arrays;
    plan_form form = form_of(item->plan, kernel, item->rows);
    int64_t all = a->size / a->row, n = form == PLAN_ROWS_PRESENT ? item->nids : all;
    const void **src = arena_alloc(&r->memory, sizeof *src, e);
    void **places = src ? list_places(r, a, e) : NULL;
    gpu_job *job = &r->jobs[k];
    if (!places)
        return KV_E_MEMORY;
    *src = item->input;
    *job = (gpu_job){.n = n * (plan_text_rows_is_by_row(item->plan) ? PLAN_ROW_ELEMENTS : a->row),
                     .src = src,
                     .nsrc = 1,
                     .more = places,
                     .nmore = PLAN_AT_END,
                     .row = a->row};
    if (form != PLAN_ROWS_ALL) {
        job->index = has_places(form) ? item->places : item->ids;
        job->nindex = n;
    }
    int rc = add_words(r, job, same ? job - 1 : NULL, item, kernel, e);
    if (rc)
        return rc;
    r->rules[k] = same ? r->rules[k - 1] : NULL;
    return same ? KV_OK : find_rule(&r->rules[k], r->gpu, r->id, item->plan, kernel, item->rows, e);
}

static int launch(const run *r, int64_t n, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0, end; i < n && !rc; i = end) {
        for (end = i + 1; end < n && r->rules[end] == r->rules[i]; end++)
            ;
        rc = r->gpu->apply(r->id, r->rules[i], r->jobs + i, end - i, e);
    }
    return rc;
}

static int run_kernel(run *r, int64_t n, int kernel, kv_err *e)
{
    const plan_gpu_rows_item *last = NULL;
    int64_t count = 0;
    int rc = KV_OK;
    for (int64_t i = 0; i < n && !rc; i++) {
        const plan_gpu_rows_item *item = &r->items[i];
        if (kernel >= plan_text_rows_kernels(item->plan) || !plan_text_rows_has(item->plan, kernel))
            continue;
        bool same = last && last->plan == item->plan && last->rows == item->rows;
        rc = make_job(r, count++, same, item, kernel, e);
        last = item;
    }
    return rc ? rc : launch(r, count, e);
}

int plan_gpu_rows_run(const gpu_ops *gpu, int id, const plan_gpu_rows_item *items, int64_t n,
                      kv_err *e)
{
    run r = {.gpu = gpu, .id = id, .items = items};
    int kernels = 0;
    r.jobs = mem_alloc(n > 0 ? n : 1, sizeof *r.jobs, e);
    r.rules = r.jobs ? mem_alloc(n > 0 ? n : 1, sizeof *r.rules, e) : NULL;
    int rc = r.rules ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        int most = plan_text_rows_kernels(items[i].plan);
        kernels = most > kernels ? most : kernels;
    }
    for (int kernel = 0; kernel < kernels && !rc; kernel++)
        rc = run_kernel(&r, n, kernel, e);
    mem_free(r.jobs);
    mem_free(r.rules);
    arena_release(&r.memory);
    return rc;
}
