/* Samples of terms, from which selections guess the range of the number that they look for. */
#include <string.h>

#include "base/stop.h"
#include "merge/merge_run.h"

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

int merge_sample(merging *r, kv_err *e)
{
    sample_work s = {.r = r};
    int rc = KV_OK;
    pool_run(r->nworkers, sample_part, &s);
    for (int i = 0; i < r->nworkers && !rc; i++)
        if ((rc = s.error[i].code) && e)
            *e = s.error[i];
    return rc;
}
