/* Batches: the next keys of the output, each a job with its plan, and the workers that have room
 * for any of them. */
#include <string.h>

#include "base/xxh64.h"
#include "merge/merge_run.h"

/* A batch ends behind so many bytes of inputs: later passes should find them in the caches. Keys
 * with one pass count a 64th of theirs. */
#define BATCH_BYTES ((int64_t)64 << 20)

#define WORKERS_BYTES ((int64_t)128 << 20) /* of all workers together */

int64_t merge_input_bytes(const merging *r, const merge_job *j)
{
    int64_t bytes = 0;
    for (int i = 0; i < r->ninputs; i++)
        bytes += j->at[i] >= 0 ? checkpoint_at(r->inputs[i], j->at[i])->bytes : 0;
    return bytes;
}

static int read_factors(merging *r, merge_job *j, const merge_factors *factors, kv_err *e)
{
    const merge *m = r->m;
    int64_t bytes = 0;
    int rc = KV_OK;
    for (int i = 0; i < m->nmodels; i++)
        bytes += factors[i].a < 0 ? 0 : merge_adapter_bytes(m->models[i], factors[i], j->wide);
    if (bytes > MERGE_FACTORS_BYTES)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "\"%.80s\": lora_A and lora_B of all adapters are too large to be held",
                          j->like->name);
    j->nproducts = 0;
    j->product = arena_alloc(&r->memory, MERGE_MODELS * sizeof *j->product, e);
    char *memory = arena_alloc(&r->memory, (size_t)bytes + MEM_ALIGN, e);
    if (!j->product || !memory)
        return KV_E_MEMORY;
    memory += -(uintptr_t)memory % MEM_ALIGN;
    for (int i = 0; i < m->nmodels && !rc; i++) {
        if (factors[i].a < 0)
            continue;
        merge_product *to = &j->product[j->nproducts++];
        rc = merge_adapter_read(to, memory, m->models[i], factors[i], j->wide, e);
        memory += merge_adapter_bytes(m->models[i], factors[i], j->wide);
    }
    return rc;
}

/* Random numbers follow from the seed, the text of the key, a stream, and the place of an element.
 * So neither threads nor blocks, shards or other keys change them. */
static uint64_t draw_hash(const char *key, int64_t stream)
{
    uint64_t parts[] = {xxh64(key, strlen(key)), (uint64_t)stream};
    return xxh64(parts, sizeof parts);
}

/* The selections of a job, by number. */
static int make_selections(merging *r, merge_job *j, kv_err *e)
{
    const plan *p = j->plan->plan;
    for (int k = 0; k < p->npasses; k++) {
        const plan_pass *pass = &p->pass[k];
        for (int i = 0; i < pass->nsums; i++) {
            const plan_total *t = &pass->sum[i];
            j->pass_of[t->number] = (int16_t)k;
            j->sum_of[t->number] = (int16_t)i;
            if (t->fold < PLAN_FOLDS)
                continue;
            int rc = merge_select_new(&j->select[t->number], t->fold, t->order,
                                      p->number_type[t->number] != PROG_F32, j->like->elements,
                                      j->npieces * j->chunks, e);
            if (rc)
                return rc;
            r->nselects++;
        }
    }
    return KV_OK;
}

/* Allocates the arrays of a job with a plan, and makes its draws and selections. */
static int make_rule_job(merging *r, merge_job *j, kv_err *e)
{
    const merge_plan *p = j->plan;
    size_t n = (size_t)p->plan->nnumbers + 1;
    int64_t results = j->npieces * p->plan->most_sums;
    j->pass = -1;
    j->number = arena_alloc(&r->memory, n * sizeof *j->number, e);
    j->cell = arena_alloc(&r->memory, n * sizeof *j->cell, e);
    j->select = arena_alloc(&r->memory, n * sizeof *j->select, e);
    j->selected = arena_alloc(&r->memory, n * sizeof *j->selected, e);
    j->pass_of = arena_alloc(&r->memory, n * sizeof *j->pass_of, e);
    j->sum_of = arena_alloc(&r->memory, n * sizeof *j->sum_of, e);
    j->draw = arena_alloc(&r->memory, (size_t)p->ndraws * sizeof *j->draw + 1, e);
    j->lost = arena_alloc(&r->memory, sizeof *j->lost, e);
    j->results = arena_alloc(&r->memory, (size_t)results * sizeof *j->results + 1, e);
    if (!j->number || !j->cell || !j->select || !j->selected || !j->pass_of || !j->sum_of ||
        !j->draw || !j->lost || !j->results)
        return KV_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        j->cell[i] = &j->number[i];
    for (int i = 0; i < p->ndraws; i++)
        j->draw[i] = draw_hash(j->like->name, p->draw[i].stream);
    return make_selections(r, j, e);
}

void merge_batch_release(merging *r)
{
    for (int64_t i = 0; i < r->njobs; i++) {
        merge_job *j = &r->jobs[i];
        for (int k = 0; j->select && k < j->plan->plan->nnumbers; k++)
            merge_select_free(j->select[k]);
        merge_plan_release(&j->own);
    }
    r->njobs = 0;
    r->nselects = 0;
    arena_release(&r->memory);
}

/* Adds a key to the batch. */
static int add_job(merging *r, const merge_repeat *as, kv_err *e)
{
    merge_factors factors[MERGE_MODELS];
    merge_job *j = &r->jobs[r->njobs++];
    int rc = merge_job_find(j, factors, r->m, as->key, e);
    if (rc)
        return rc;
    j->last = as->last || j->wide;
    j->lost_before = as->lost;
    j->wide |= as->wide;
    j->width = j->wide ? 8 : 4;
    bool rule = j->kind == MERGE_JOB_RULE && j->like->elements > 0;
    if (rule)
        rc = merge_plans_get(r->plans, j, factors, e);
    if (!rc && !rule && j->kind == MERGE_JOB_RULE)
        j->kind = MERGE_JOB_COPY; /* of no elements */
    if (!rc)
        rc = merge_job_cut(j, e);
    if (!rc && rule)
        rc = make_rule_job(r, j, e);
    if (!rc && rule && r->m->adapters)
        rc = read_factors(r, j, factors, e);
    if (!rc)
        merge_room_add(&r->room, j, r->ninputs);
    return rc;
}

/* Adds keys until the batch is large enough, and estimates the bytes that its passes read. */
int merge_batch_fill(merging *r, kv_err *e)
{
    int64_t bytes = 0, weighed = 0;
    int rc = KV_OK;
    r->room = (merge_room){0};
    r->batch_left = 0;
    while (!rc && r->next < r->m->nkeys && r->njobs < MERGE_BATCH_KEYS && weighed < BATCH_BYTES &&
           r->memory.total_bytes < (size_t)MERGE_FACTORS_BYTES) {
        rc = add_job(r, &(merge_repeat){.key = r->next++}, e);
        if (rc)
            break;
        const merge_job *j = &r->jobs[r->njobs - 1];
        int64_t n = merge_input_bytes(r, j), passes = j->plan ? j->plan->plan->npasses : 1;
        bytes += n;
        weighed += passes > 1 ? n : n / 64;
        r->batch_left += n * passes;
    }
    r->left -= bytes;
    r->passes = bytes > 0 ? (r->batch_left + bytes - 1) / bytes : 1;
    return rc;
}

int merge_batch_repeat(merging *r, const merge_repeat *keys, int64_t n, int64_t *taken, kv_err *e)
{
    int rc = KV_OK;
    r->room = (merge_room){0};
    *taken = 0;
    while (!rc && *taken < n && r->memory.total_bytes < (size_t)MERGE_FACTORS_BYTES) {
        const merge_repeat *k = &keys[(*taken)++];
        rc = add_job(r, k, e);
        checkpoint_out_again(r->out, k->key);
        for (int i = 0; r->m->lost && i < LOSSES_KINDS; i++)
            atomic_store(&r->m->lost->keys[k->key].count[i], 0);
    }
    return rc;
}

/* Workers for the jobs of the batch, fewer than threads where their memory would be too much. It is
 * kept for the next batch. */
int merge_batch_workers(merging *r, kv_err *e)
{
    int64_t bytes = merge_room_bytes(&r->room), most = WORKERS_BYTES / bytes;
    r->nworkers = pool_workers();
    if (r->nworkers > most)
        r->nworkers = most < 1 ? 1 : (int)most;
    if (bytes * r->nworkers > r->worker_bytes) {
        mem_free_data(r->worker_memory);
        r->worker_bytes = bytes * r->nworkers;
        r->worker_memory = mem_alloc_data(r->worker_bytes, e);
    }
    if (!r->worker_memory)
        return KV_E_MEMORY;
    for (int i = 0; i < r->nworkers; i++)
        merge_worker_init(&r->workers[i], &r->room, r->worker_memory + i * bytes);
    return KV_OK;
}
