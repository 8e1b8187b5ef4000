/* Runs of merges. Keys are taken in batches: each pass goes over all keys of a batch before the
 * next one begins, so small keys keep all threads busy, and what a pass has read is still in the
 * caches when the next one reads it. Pieces are those of walk.h, or whole rows where rows are
 * ranked.
 *
 * Sums: chunks of MERGE_CHUNK elements (kernel_fold.h), chunks in order within a piece, pieces in
 * order, all in float64, rounded once to the number's type.
 */
#include "merge/merge_run.h"

#include <string.h>

#include "base/stop.h"
#include "vm/kernel_fold.h"

/* ---- Passes ---------------------------------------------------------------------------------- */

static void put_number(merge_job *j, int i, double x)
{
    prog_number_put(&j->number[i], (prog_type)j->plan->plan->number_type[i], (prog_number){x});
}

static int begin_selections(merge_job *j, kv_err *e)
{
    const plan_pass *pass = &j->plan->plan->pass[j->pass];
    int rc = KV_OK;
    for (int i = 0; i < pass->nsums && !rc; i++)
        if (pass->sum[i].fold >= PLAN_FOLDS && !j->selected[pass->sum[i].number])
            rc = merge_select_begin(j->select[pass->sum[i].number], e);
    return rc;
}

/* Goes on to the next pass that has a program over elements, and computes the numbers on the way;
 * *ended becomes true if there is none. */
static void next_pass(merging *r, merge_job *j, bool *ended)
{
    const plan *p = j->plan->plan;
    *ended = true;
    while (*ended && ++j->pass < p->npasses) {
        if (p->pass[j->pass].numbers)
            prog_run(p->pass[j->pass].numbers, j->cell, 1, r->workers[0].scratch);
        *ended = !p->pass[j->pass].elements;
    }
}

static void end_sums(merge_job *j)
{
    const plan_pass *pass = &j->plan->plan->pass[j->pass];
    for (int i = 0; i < pass->nsums; i++) {
        if (pass->sum[i].fold >= PLAN_FOLDS)
            continue;
        double sum = kernel_fold_begin(pass->sum[i].fold);
        for (int64_t k = 0; k < j->npieces; k++)
            sum = kernel_fold_join(pass->sum[i].fold, sum, j->results[k * pass->nsums + i]);
        put_number(j, pass->sum[i].number, sum);
    }
}

/* Ends the selections of a sweep; the job comes again if some are not known. */
static void end_selections(merge_job *j)
{
    const plan_pass *pass = &j->plan->plan->pass[j->pass];
    j->again = false;
    for (int i = 0; i < pass->nsums; i++) {
        int number = pass->sum[i].number;
        bool more;
        if (pass->sum[i].fold < PLAN_FOLDS || j->selected[number])
            continue;
        merge_select_end(j->select[number], &more);
        j->selected[number] = !more;
        j->again |= more;
        if (!more)
            put_number(j, number, merge_select_number(j->select[number]));
    }
}

static void end_part(void *arg, int64_t part, int worker)
{
    merging *r = arg;
    (void)worker;
    if (r->active[part]->kind == MERGE_JOB_RULE)
        end_selections(r->active[part]);
}

/* Ends a walk: takes the jobs out of `active` that have neither a sweep nor a pass left. */
static int end_walk(merging *r, kv_err *e)
{
    int64_t left = 0;
    int rc = KV_OK;
    pool_run(r->nactive, end_part, r);
    for (int64_t i = 0; i < r->nactive && !rc; i++) {
        merge_job *j = r->active[i];
        bool ended = true;
        if (j->kind != MERGE_JOB_RULE)
            continue;
        bool again = j->again;
        if (!again) {
            end_sums(j);
            next_pass(r, j, &ended);
        }
        if (again)
            rc = begin_selections(j, e);
        if (again || !ended)
            r->active[left++] = j;
    }
    r->nactive = left;
    return rc;
}

/* ---- Samples of terms, from which selections guess the range of their number ----------------- */

#define SAMPLE_BYTES ((int64_t)4 << 20) /* of the samples of a key */

/* A sample is made of runs of elements that stand together. */
enum { RUN = 128 };

/* The sampling of one key. */
typedef struct sampling {
    merge_worker *w;
    merge_job *j;
    int nselects, sum[PLAN_MAX_NUMBERS]; /* sums of the pass that want a sample */
    int64_t n;                           /* elements */
    char *terms[PLAN_MAX_NUMBERS];
} sampling;

static int64_t number_width(const merge_job *j, int number)
{
    return j->plan->plan->number_type[number] == PROG_F32 ? 4 : 8;
}

static int sample_runs(sampling *s, kv_err *e)
{
    const merge_job *j = s->j;
    const plan_pass *pass = &j->plan->plan->pass[j->pass];
    int64_t runs = s->n / RUN, stride = j->like->elements / RUN / runs;
    int rc = KV_OK;
    for (int64_t k = 0; k < runs && !rc; k++) {
        int64_t at = (int64_t)(((uint64_t)k * 0x9E3779B97F4A7C15u) >> 40) % stride;
        s->w->block_n = 0;
        merge_worker_chunk(s->w, (k * stride + at) * RUN, RUN, 0);
        rc = merge_worker_run(s->w, j->pass, NULL, e);
        for (int i = 0; i < s->nselects && !rc; i++) {
            int64_t width = number_width(j, pass->sum[s->sum[i]].number);
            memcpy(s->terms[i] + k * RUN * width, merge_worker_terms(s->w, j->pass, s->sum[i]),
                   (size_t)(RUN * width));
        }
    }
    return rc;
}

/* Samples for all selections of the job's pass. */
static int sample_job(merge_worker *w, merge_job *j, tensor_reader *const *readers, kv_err *e)
{
    const plan_pass *pass = &j->plan->plan->pass[j->pass];
    sampling s = {.w = w, .j = j};
    for (int i = 0; i < pass->nsums; i++) {
        int64_t n = pass->sum[i].fold < PLAN_FOLDS
                        ? 0
                        : merge_select_sample_size(j->select[pass->sum[i].number]);
        if (n > 0)
            s.sum[s.nselects++] = i;
        s.n = n > s.n ? n : s.n;
    }
    if (s.nselects == 0 || (j->plan->nranks > 0 && merge_job_ranks(j, j->pass)))
        return KV_OK;
    s.n = s.n < SAMPLE_BYTES / 8 / s.nselects ? s.n : SAMPLE_BYTES / 8 / s.nselects;
    s.n -= s.n % RUN;
    char *terms = mem_alloc(s.n * s.nselects, 8, e);
    if (!terms)
        return KV_E_MEMORY;
    for (int i = 0; i < s.nselects; i++)
        s.terms[i] = terms + i * s.n * 8;
    merge_worker_job(w, j, readers);
    w->block_most = RUN;
    int rc = sample_runs(&s, e);
    for (int i = 0; i < s.nselects && !rc; i++)
        merge_select_sample(j->select[pass->sum[s.sum[i]].number], s.terms[i], s.n);
    mem_free(terms);
    return rc;
}

/* All jobs of a batch: threads take the next one until none is left. */
typedef struct sample_work {
    merging *r;
    atomic_llong next;
    kv_err error[POOL_MAX_WORKERS];
} sample_work;

static void sample_part(void *arg, int64_t part, int worker)
{
    sample_work *s = arg;
    merging *r = s->r;
    tensor_reader *readers[MERGE_INPUTS] = {0};
    kv_err *e = &s->error[part];
    int rc = KV_OK;
    int64_t i;
    (void)worker;
    for (int k = 0; k < r->ninputs && !rc; k++)
        rc = tensor_reader_new(&readers[k], r->inputs[k], 0, e);
    while (!rc && (i = atomic_fetch_add(&s->next, 1)) < r->nactive) {
        rc = stop_check(e);
        if (!rc && r->active[i]->kind == MERGE_JOB_RULE && !r->active[i]->again)
            rc = sample_job(&r->workers[part], r->active[i], readers, e);
    }
    for (int k = 0; k < r->ninputs; k++)
        tensor_reader_free(readers[k]);
}

/* Samples the terms of each selection in the passes of the active jobs, and tells the selections.
 * Errors: those of tensor_read. */
static int sample_terms(merging *r, kv_err *e)
{
    sample_work s = {.r = r};
    int rc = KV_OK;
    pool_run(r->nworkers, sample_part, &s);
    for (int i = 0; i < r->nworkers && !rc; i++)
        if ((rc = s.error[i].code) && e)
            *e = s.error[i];
    return rc;
}

/* ---- Walks ----------------------------------------------------------------------------------- */

/* Samples and begins the selections of passes that have not begun. */
static int begin_walk(merging *r, kv_err *e)
{
    int rc = KV_OK;
    if (r->nselects == 0)
        return KV_OK;
    rc = sample_terms(r, e);
    for (int64_t i = 0; i < r->nactive && !rc; i++)
        if (r->active[i]->kind == MERGE_JOB_RULE && !r->active[i]->again)
            rc = begin_selections(r->active[i], e);
    return rc;
}

static void tell(void *arg, int64_t done, int64_t all)
{
    const merging *r = arg;
    int64_t left = r->batch_left > all ? r->batch_left : all;
    if (r->m->progress)
        r->m->progress(r->m->progress_arg, r->done + done, r->done + left + r->left * r->passes);
}

static int walk_active(merging *r, kv_err *e)
{
    int64_t bytes = 0, block = 0;
    for (int64_t i = 0; i < r->nactive; i++) {
        const merge_job *j = r->active[i];
        for (int k = 0; k < r->ninputs; k++) {
            r->at[i * r->ninputs + k] = j->at[k];
            int64_t n =
                j->at[k] < 0
                    ? 0
                    : tensor_type_bytes(checkpoint_at(r->inputs[k], j->at[k])->type, MERGE_BLOCK);
            block = n > block ? n : block;
        }
        r->pieces[i] = j->piece;
        bytes += merge_input_bytes(r, j);
    }
    for (int i = 0; i < r->nworkers; i++)
        r->workers[i].copied = NULL;
    memset(r->slot, 0, sizeof r->slot);
    atomic_store(&r->taken, 0);
    walk w = {.inputs = r->inputs,
              .ninputs = r->ninputs,
              .ntensors = r->nactive,
              .at = r->at,
              .piece_elements = r->pieces,
              .block_bytes = block,
              .most_workers = r->nworkers,
              .piece = merge_piece_handle,
              .arg = r,
              .progress = tell,
              .progress_arg = r};
    int rc = walk_run(&w, e);
    r->done += bytes;
    r->batch_left -= bytes;
    return rc;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* The passes of the jobs of the batch. */
static int run_jobs(merging *r, kv_err *e)
{
    int rc = merge_batch_workers(r, e);
    r->nactive = 0;
    for (int64_t i = 0; i < r->njobs && !rc; i++) {
        merge_job *j = &r->jobs[i];
        bool ended = j->like->elements == 0;
        if (j->kind == MERGE_JOB_RULE) {
            next_pass(r, j, &ended);
            for (int k = 0; k < j->plan->plan->nnumbers; k++)
                if (j->select[k])
                    merge_select_room(j->select[k], MERGE_KEPT_BYTES / 8 / r->nselects);
        }
        if (!ended)
            r->active[r->nactive++] = j;
    }
    while (!rc && r->nactive > 0) {
        rc = begin_walk(r, e);
        if (!rc)
            rc = walk_active(r, e);
        if (!rc)
            rc = end_walk(r, e);
    }
    return rc;
}

/* The keys of the batch that are merged again; returns how many. */
static int64_t find_repeats(merging *r, merge_repeat *repeats)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->njobs; i++) {
        const merge_job *j = &r->jobs[i];
        int64_t lost = j->kind == MERGE_JOB_RULE && !j->last ? atomic_load(j->lost) : 0;
        if (lost > 0 && j->wide)
            repeats[n++] = (merge_repeat){j->key, lost != j->lost_before, true, 0};
        else if (lost > 0)
            repeats[n++] = (merge_repeat){j->key, true, false, lost};
    }
    return n;
}

static int run_repeats(merging *r, int64_t n, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t taken; n > 0 && !rc; n -= taken) {
        rc = merge_batch_repeat(r, r->repeats, n, &taken, e);
        if (!rc)
            rc = run_jobs(r, e);
        memmove(r->repeats, r->repeats + taken, (size_t)(n - taken) * sizeof *r->repeats);
        if (!rc)
            n += find_repeats(r, r->repeats + n - taken);
        merge_batch_release(r);
    }
    return rc;
}

static int run_batch(merging *r, kv_err *e)
{
    int rc = merge_batch_fill(r, e);
    if (!rc)
        rc = run_jobs(r, e);
    int64_t n = rc ? 0 : find_repeats(r, r->repeats);
    merge_batch_release(r);
    return rc ? rc : run_repeats(r, n, e);
}

static int open_out(merging *r, const char *path, const checkpoint_out_options *o, kv_err *e)
{
    const merge *m = r->m;
    merge_factors factors[MERGE_MODELS];
    checkpoint_entry *entries = mem_alloc(m->nkeys, sizeof *entries, e);
    int rc = entries ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < m->nkeys && !rc; i++) {
        merge_job j;
        rc = merge_job_find(&j, factors, m, i, e);
        if (rc)
            break;
        entries[i] = (checkpoint_entry){m->keys[i].name, j.type, j.like->ndim, j.like->shape};
        r->left += merge_input_bytes(r, &j);
    }
    if (!rc)
        rc =
            checkpoint_out_open(&r->out, path, entries, m->nkeys, m->metadata, m->nmetadata, o, e);
    mem_free(entries);
    return rc;
}

int merge_run(const merge *m, const char *path, const checkpoint_out_options *o, kv_err *e)
{
    merging r = {.m = m, .passes = 1};
    for (int i = 0; i < m->nmodels; i++)
        r.inputs[r.ninputs++] = m->models[i];
    if (m->base)
        r.inputs[r.ninputs++] = m->base;
    r.jobs = mem_zalloc(MERGE_BATCH_KEYS, sizeof *r.jobs, e);
    r.active = mem_alloc(MERGE_BATCH_KEYS, sizeof(merge_job *), e);
    r.repeats = mem_alloc(MERGE_BATCH_KEYS, sizeof *r.repeats, e);
    r.at = mem_alloc(MERGE_BATCH_KEYS * (int64_t)r.ninputs, sizeof *r.at, e);
    r.pieces = mem_alloc(MERGE_BATCH_KEYS, sizeof *r.pieces, e);
    r.workers = mem_zalloc(pool_workers(), sizeof *r.workers, e);
    int rc = r.jobs && r.active && r.repeats && r.at && r.pieces && r.workers ? KV_OK : KV_E_MEMORY;
    if (!rc)
        rc = merge_plans_new(&r.plans, m, e);
    if (!rc)
        rc = open_out(&r, path, o, e);
    while (!rc && r.next < m->nkeys)
        rc = run_batch(&r, e);
    merge_plans_free(r.plans);
    mem_free(r.jobs);
    mem_free(r.active);
    mem_free(r.repeats);
    mem_free(r.at);
    mem_free(r.pieces);
    mem_free(r.workers);
    mem_free_data(r.worker_memory);
    if (!rc)
        return checkpoint_out_commit(r.out, e);
    checkpoint_out_abandon(r.out);
    return rc;
}
