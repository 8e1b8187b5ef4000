/* From keys to jobs: those of one kernel meet in the list, whose stages are the passes. */
#include "vm/plan_gpu.h"

#include <string.h>

#include "base/kv_assert.h"
#include "vm/plan_pass.h"

enum {
    PLACE_BYTES = 256, /* what blocks of the device's memory are aligned to */
    MOST_KERNELS = 2 * PLAN_MAX_PASSES,
    RECENT = 4 /* kinds of plans: layers take turns of few kinds of weights */
};

/* The stages of a pass: sums of values for a kernel by rows, the kernels, sums of their terms. */
enum { SUM_VALUES, NUMBERS, ELEMENTS, CHUNKS, ALL, STAGES };

/* A kernel, and the facts about its text that each job needs: to find them takes longer than to
 * make the job. */
typedef struct plan_kernel {
    const gpu_rule *rule; /* NULL: nothing to do */
    const int *slots;
    int nslots;
    int64_t nwords;
    bool shares;         /* keys of one pool have the same words */
    const double *words; /* those of kernels.pool_of */
} plan_kernel;

/* The kernels of a plan, which keys share as they share the case of a rule. */
typedef struct kernels {
    const plan *plan; /* NULL: none */
    plan_input input;
    const uint64_t *pool_of; /* of the last item */
    plan_kernel of[MOST_KERNELS];
} kernels;

/* The place of the numbers and terms of an item in the room. Items that do not fit beside each
 * other take turns. */
typedef struct place {
    int turn;
    int64_t offset;
} place;

typedef struct run {
    gpu_list *list;
    int id;
    const plan_gpu_item *items;
    place *places; /* of each item */
    char *room;
    const int64_t *rows; /* NULL, or find_rows of the item that is being added */
    kernels recent[RECENT];
    int64_t nrecent;
} run;

/* ---- Kernels ---- */

static int compile(const gpu_rule **out, const gpu_ops *gpu, int id, const plan *p, int kernel,
                   plan_input input, kv_err *e)
{
    buf text = {0};
    plan_text(&text, p, kernel, input, GPU_RULE_KERNEL);
    int rc = buf_check(&text, e);
    if (!rc)
        rc = gpu->compile(id, buf_text(&text), out, e);
    buf_release(&text);
    return rc;
}

static int compile_all(kernels *k, const gpu_ops *gpu, int id, const plan *p, plan_input input,
                       kv_err *e)
{
    int rc = KV_OK;
    *k = (kernels){.input = input};
    for (int i = 0; i < plan_text_kernels(p) && !rc; i++)
        if (plan_text_has(p, i))
            rc = compile(&k->of[i].rule, gpu, id, p, i, input, e);
    k->plan = rc ? NULL : p;
    return rc;
}

int plan_gpu_prepare(const gpu_ops *gpu, int id, const plan *p, plan_input input,
                     const plan *before, kv_err *e)
{
    kernels unused;
    return before == p ? KV_OK : compile_all(&unused, gpu, id, p, input, e);
}

/* Fills in the facts about the text of a kernel. */
static int read_kernel(run *r, plan_kernel *k, const plan *p, int which, kv_err *e)
{
    int slots[PLAN_MAX_SLOTS];
    k->nslots = plan_text_slots(p, which, slots);
    k->nwords = plan_text_words(p, which);
    k->shares = plan_text_is_shared(p, which);
    size_t bytes = (size_t)k->nslots * sizeof *slots;
    int *kept = arena_alloc(&r->list->memory, bytes, e);
    if (!kept)
        return KV_E_MEMORY;
    memcpy(kept, slots, bytes);
    k->slots = kept;
    return KV_OK;
}

static int find_kernels(run *r, const plan_gpu_item *item, kernels **out, kv_err *e)
{
    for (int i = 0; i < RECENT; i++) {
        *out = &r->recent[i];
        if ((*out)->plan == item->plan && (*out)->input == item->input)
            return KV_OK;
    }
    *out = &r->recent[r->nrecent++ % RECENT];
    int rc = compile_all(*out, r->list->gpu, r->id, item->plan, item->input, e);
    for (int i = 0; i < plan_text_kernels(item->plan) && !rc; i++)
        if ((*out)->of[i].rule)
            rc = read_kernel(r, &(*out)->of[i], item->plan, i, e);
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
                       kv_dtype_bytes(number_dtype(item->plan, pass->sum[s].number)));
    return bytes;
}

/* By rows, numbers and sums are variables of a kernel. */
static int64_t item_bytes(const plan_gpu_item *item)
{
    int64_t most = 0;
    if (item->plan->by_rows)
        return 0;
    for (int i = 0; i < item->plan->npasses; i++) {
        const plan_pass *pass = &item->plan->pass[i];
        int64_t bytes = sums_bytes(item, pass, pass->nsums);
        most = bytes > most ? bytes : most;
    }
    return numbers_bytes(item) + most;
}

/* Gives the items their places, as many a turn as there is room for, but one at least. */
static int share_room(run *r, int64_t n, kv_err *e)
{
    place next = {0, 0};
    int64_t most = 0;
    void *block = NULL;
    r->places = arena_alloc(&r->list->memory, (size_t)n * sizeof *r->places + 1, e);
    if (!r->places)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes = item_bytes(&r->items[i]);
        if (next.offset > 0 && next.offset + bytes > r->list->gpu->scratch)
            next = (place){next.turn + 1, 0};
        r->places[i] = next;
        next.offset += bytes;
        most = next.offset > most ? next.offset : most;
    }
    int rc = most > 0 ? gpu_list_block_new(r->list, r->id, most, &block, e) : KV_OK;
    r->room = block;
    return rc;
}

static void *numbers_of(const run *r, int64_t item)
{
    const plan *p = r->items[item].plan;
    return p->nnumbers && !p->by_rows ? r->room + r->places[item].offset : NULL;
}

static char *chunks_of(const run *r, int64_t item, int sum)
{
    const plan_gpu_item *of = &r->items[item];
    return r->room + r->places[item].offset + numbers_bytes(of) + sum * chunks_bytes(of);
}

static void *terms_of(const run *r, int64_t item, const plan_pass *pass, int sum)
{
    return chunks_of(r, item, 0) + sums_bytes(&r->items[item], pass, sum);
}

/* ---- Jobs ---- */

static gpu_launch launch_of(const run *r, int64_t item, int pass, int stage)
{
    int first = (r->places[item].turn * PLAN_MAX_PASSES + pass) * STAGES;
    return (gpu_launch){.stage = first + stage, .id = r->id};
}

/* The arrays of a kernel, and the numbers behind them. */
static int add_arrays(run *r, gpu_job *job, int64_t item, const plan_pass *pass,
                      const plan_kernel *k, kv_err *e)
{
    int n = k->nslots;
    void **arrays = arena_alloc(&r->list->memory, (size_t)(n + 1) * sizeof *arrays, e);
    if (!arrays)
        return KV_E_MEMORY;
    for (int s = 0; s < n; s++) {
        int slot = k->slots[s];
        void *const *array = plan_array_of(r->items[item].arrays, slot);
        arrays[s] = plan_slot_kind(slot) == PLAN_TERMS
                        ? terms_of(r, item, pass, plan_slot_index(slot))
                    : array ? *array
                            : NULL;
    }
    arrays[n] = numbers_of(r, item);
    job->more = arrays;
    job->nmore = n + 1;
    return KV_OK;
}

/* Neighbours that have the same numbers share the words. */
static int add_words(run *r, gpu_job *job, const plan_gpu_item *item, int which, kernels *own,
                     kv_err *e)
{
    const plan *p = item->plan;
    plan_kernel *k = &own->of[which];
    job->nnumbers = k->nwords;
    job->numbers = own->pool_of == item->arrays->pool && k->shares ? k->words : NULL;
    if (job->numbers)
        return KV_OK;
    double *words = arena_alloc(&r->list->memory, (size_t)job->nnumbers * sizeof *words, e);
    if (!words)
        return KV_E_MEMORY;
    plan_text_fill(words, p, which, item->arrays);
    job->numbers = k->words = words;
    return KV_OK;
}

/* A kernel by rows reads its input in each pass, so several values are summed before. */
static int sum_values(run *r, int64_t item, gpu_job *job, kv_err *e)
{
    const plan_gpu_item *of = &r->items[item];
    kv_dtype dtype = of->arrays->input_dtype;
    gpu_launch as = launch_of(r, item, 0, SUM_VALUES);
    gpu_job sum = {.n = of->arrays->size, .src = of->values, .nsrc = of->nvalues, .to = dtype};
    const void **src = arena_alloc(&r->list->memory, sizeof *src, e);
    as.work = GPU_SUM;
    int rc = src ? gpu_list_block_new(r->list, r->id, sum.n * kv_dtype_bytes(dtype), &sum.dst, e)
                 : KV_E_MEMORY;
    if (rc)
        return rc;
    *src = sum.dst;
    job->src = src;
    job->nsrc = 1;
    return gpu_list_add(r->list, &as, &sum, e);
}

/* For each row of the key which of the input's it is, or -1. */
static const int64_t *find_rows(run *r, const plan_gpu_item *item, int64_t n, kv_err *e)
{
    int64_t *rows;
    if (r->rows)
        return r->rows;
    rows = arena_alloc(&r->list->memory, (size_t)n * sizeof *rows, e);
    for (int64_t i = 0; i < n && rows; i++)
        rows[i] = -1;
    for (int64_t k = 0; k < item->nids && rows; k++)
        rows[item->ids[k]] = k;
    return r->rows = rows;
}

/* The elements of a kernel over elements, or by rows. */
static int add_elements(run *r, gpu_job *job, int64_t item, int which, kv_err *e)
{
    const plan_gpu_item *of = &r->items[item];
    const plan_arrays *a = of->arrays;
    plan_form form = plan_text_form(of->plan, which, of->input);
    *job = (gpu_job){.n = a->size, .src = of->values, .nsrc = of->nvalues};
    if (form == PLAN_ROWS_ALL && !of->plan->by_rows)
        return KV_OK;
    if (!kv_assert(a->row > 0 && (form == PLAN_ROWS_ALL || of->nvalues == 1),
                   "a kernel over rows of %lld elements has %lld inputs", (long long)a->row,
                   (long long)of->nvalues))
        return kv_assert_report(e);
    int64_t rows = form == PLAN_ROWS_PRESENT ? of->nids : a->size / a->row;
    job->n = rows * (of->plan->by_rows ? PLAN_ROW_ELEMENTS : a->row);
    job->row = a->row;
    if (form == PLAN_ROWS_ALL)
        return of->nvalues > 1 ? sum_values(r, item, job, e) : KV_OK;
    job->index = form == PLAN_ROWS_PRESENT ? of->ids : find_rows(r, of, rows, e);
    job->nindex = rows;
    return job->index ? KV_OK : KV_E_MEMORY;
}

static int add_kernel(run *r, int64_t item, int which, kernels *k, kv_err *e)
{
    const plan_gpu_item *of = &r->items[item];
    gpu_launch as = launch_of(r, item, which / 2, NUMBERS + which % 2);
    gpu_job job = {.n = 1};
    bool elements = of->plan->by_rows || which % 2;
    int rc = elements ? add_elements(r, &job, item, which, e) : KV_OK;
    if (rc || (rc = add_arrays(r, &job, item, &of->plan->pass[which / 2], &k->of[which], e)) ||
        (rc = add_words(r, &job, of, which, k, e)))
        return rc;
    as.rule = k->of[which].rule;
    return gpu_list_add(r->list, &as, &job, e);
}

/* Terms become the sums of chunks, and these one number. */
static int add_sum(run *r, int64_t item, int pass, int sum, kv_err *e)
{
    const plan_gpu_item *of = &r->items[item];
    const plan_pass *own = &of->plan->pass[pass];
    gpu_launch chunks = launch_of(r, item, pass, CHUNKS), all = launch_of(r, item, pass, ALL);
    const void **from = arena_alloc(&r->list->memory, 2 * sizeof *from, e);
    int number = own->sum[sum].number;
    if (!from)
        return KV_E_MEMORY;
    from[0] = terms_of(r, item, own, sum);
    from[1] = chunks_of(r, item, sum);
    gpu_job job = {.dst = chunks_of(r, item, sum),
                   .n = nchunks_of(of),
                   .row = of->arrays->size,
                   .src = &from[0],
                   .nsrc = 1,
                   .to = number_dtype(of->plan, number)};
    chunks.work = GPU_SUM_CHUNKS;
    int rc = gpu_list_add(r->list, &chunks, &job, e);
    job.dst = (double *)numbers_of(r, item) + number;
    job.row = job.n;
    job.n = 1;
    job.src = &from[1];
    all.work = GPU_SUM_ALL;
    return rc ? rc : gpu_list_add(r->list, &all, &job, e);
}

static int add_item(run *r, int64_t item, kv_err *e)
{
    const plan *p = r->items[item].plan;
    kernels *k;
    int rc = find_kernels(r, &r->items[item], &k, e);
    r->rows = NULL;
    for (int i = 0; i < plan_text_kernels(p) && !rc; i++)
        if (k->of[i].rule)
            rc = add_kernel(r, item, i, k, e);
    for (int i = 0; i < p->npasses && !p->by_rows; i++)
        for (int s = 0; s < p->pass[i].nsums && !rc; s++)
            rc = add_sum(r, item, i, s, e);
    k->pool_of = r->items[item].arrays->pool;
    return rc;
}

int plan_gpu_run(gpu_list *l, int id, const plan_gpu_item *items, int64_t n, kv_err *e)
{
    run r = {.list = l, .id = id, .items = items};
    (void)kv_assert(l->n == 0, "a list has %lld launches before those of rules", (long long)l->n);
    int rc = share_room(&r, n, e);
    for (int64_t i = 0; i < n && !rc; i++)
        rc = add_item(&r, i, e);
    return rc ? rc : gpu_list_run(l, e);
}
