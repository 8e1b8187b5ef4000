/* Runs of merges. Keys are taken in batches: each pass goes over all keys of a batch before the
 * next one begins, so small keys keep all threads busy, and what a pass has read is still in the
 * caches when the next one reads it. Pieces are those of walk.h, or whole rows where rows are
 * ranked.
 *
 * Sums: chunks of MERGE_CHUNK elements (merge_fold.h), chunks in order within a piece, pieces in
 * order, all in float64, rounded once to the number's type.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/stop.h"
#include "checkpoint/tensor_codec.h"
#include "engine/pool.h"
#include "merge/merge_fold.h"
#include "merge/merge_job.h"
#include "merge/merge_plans.h"
#include "tensors/tensor_words.h"

/* A batch ends behind so many bytes of inputs, where passes follow each other, and behind so many
 * keys, which take memory. */
#define BATCH_BYTES ((int64_t)64 << 20)
#define BATCH_KEYS  1024

#define KEPT_BYTES    ((int64_t)48 << 20)  /* of all selections together */
#define WORKERS_BYTES ((int64_t)128 << 20) /* of all workers together */
#define SAMPLE_BYTES  ((int64_t)4 << 20)   /* of the samples of a key */

typedef struct run {
    const merge *m;
    checkpoint *inputs[MERGE_INPUTS];
    int ninputs;
    merge_plans *plans;
    checkpoint_out *out;
    int64_t next; /* key */

    /* The batch. */
    merge_job *jobs; /* BATCH_KEYS of them */
    int64_t njobs;
    arena memory; /* of the jobs */
    merge_room room;
    int64_t nselects;

    /* Those that the next walk goes over. */
    merge_job **active;
    int64_t nactive;
    int64_t *at, *pieces; /* see walk */

    merge_worker *workers;
    char *worker_memory;
    int64_t worker_bytes;
    int nworkers;
    atomic_int taken;
    int slot[POOL_MAX_WORKERS]; /* which of them a worker of the pool is, from 1 */

    int64_t done, left; /* bytes of the walks before, and of the keys that no batch had yet */
    int64_t passes;     /* of the last batch */
    int64_t batch_left; /* bytes of the passes of the batch that are to come */
} run;

/* ---- Messages -------------------------------------------------------------------------------- */

/* Element `first + i` does not fit the key's type: it is number i of data. */
static int refuse_number(const run *r, const merge_job *j, int64_t first, int64_t i,
                         tensor_type type, const void *data, kv_err *e)
{
    buf place = {0}, text = {0};
    tensor_words_place(&place, j->like, first + i);
    tensor_words_number(&text, type, data, i);
    file_bad(e, KV_E_VALUE, checkpoint_name(merge_first(r->m)),
             "\"%.80s\" becomes %s at %s, which %s cannot hold", j->like->name, buf_text(&text),
             buf_text(&place), tensor_type_name(j->type));
    buf_release(&place);
    buf_release(&text);
    return e ? e->code : KV_E_VALUE;
}

/* Element i of two blocks is the first that differs. */
static int refuse_difference(const run *r, const merge_job *j, int input, int64_t first, int64_t i,
                             const void *like, const void *other, kv_err *e)
{
    buf place = {0}, one = {0}, two = {0};
    tensor_words_place(&place, j->like, first + i);
    tensor_words_number(&one, j->like->type, like, i);
    tensor_words_number(&two, j->like->type, other, i);
    file_bad(e, KV_E_VALUE, checkpoint_name(r->inputs[input]),
             "\"%.80s\" is %s at %s, in %.120s %s", j->like->name, buf_text(&two), buf_text(&place),
             checkpoint_name(merge_first(r->m)), buf_text(&one));
    buf_release(&place);
    buf_release(&one);
    buf_release(&two);
    return kv_err_hint(e, "keys of integers must be equal; --exclude leaves keys out");
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static int put_piece(const run *r, const merge_job *j, const walk_piece *p, const void *data,
                     kv_err *e)
{
    return checkpoint_out_put(r->out, j->key, tensor_type_bytes(j->type, p->first), data,
                              tensor_type_bytes(j->type, p->n), e);
}

static int read_block(const merge_job *j, int input, const walk_piece *p, int64_t first, int64_t n,
                      const void **data, kv_err *e)
{
    tensor_type t = checkpoint_at(tensor_reader_of(p->readers[input]), j->at[input])->type;
    return tensor_read(p->readers[input], data, j->at[input], tensor_type_bytes(t, first),
                       tensor_type_bytes(t, n), e);
}

/* n elements of a key that must be equal in all inputs. */
static int equal_block(const run *r, const merge_job *j, int like, const walk_piece *p,
                       int64_t first, int64_t n, char *to, kv_err *e)
{
    const void *data, *other;
    int64_t width = tensor_type_bytes(j->type, 1);
    int code = read_block(j, like, p, first, n, &data, e);
    for (int i = 0; i < r->ninputs && !code; i++) {
        if (i == like || j->at[i] < 0 || (code = read_block(j, i, p, first, n, &other, e)))
            continue;
        if (memcmp(data, other, (size_t)(n * width)) == 0)
            continue;
        const char *a = data, *b = other;
        int64_t at = 0;
        while (memcmp(a + at * width, b + at * width, (size_t)width) == 0)
            at++;
        return refuse_difference(r, j, i, first, at, data, other, e);
    }
    if (!code)
        memcpy(to, data, (size_t)(n * width));
    return code;
}

static int copy_block(const run *r, const merge_job *j, int like, const walk_piece *p,
                      int64_t first, int64_t n, char *to, kv_err *e)
{
    const void *data;
    int code = read_block(j, like, p, first, n, &data, e);
    int64_t bad = code ? -1 : tensor_convert(to, j->type, data, j->like->type, n);
    return bad < 0 ? code : refuse_number(r, j, first, bad, j->like->type, data, e);
}

/* A piece of a key that no rule is for. */
static int plain_piece(const run *r, merge_worker *w, const merge_job *j, const walk_piece *p,
                       kv_err *e)
{
    int like = r->m->base ? r->m->nmodels : 0, code = KV_OK;
    for (int64_t at = 0; at < p->n && !code; at += MERGE_BLOCK) {
        int64_t n = p->n - at < MERGE_BLOCK ? p->n - at : MERGE_BLOCK;
        char *to = w->out + tensor_type_bytes(j->type, at);
        code = j->kind == MERGE_JOB_EQUAL ? equal_block(r, j, like, p, p->first + at, n, to, e)
                                          : copy_block(r, j, like, p, p->first + at, n, to, e);
    }
    return code ? code : put_piece(r, j, p, w->out, e);
}

/* The sums of the terms of a chunk are added to those of the piece, unless they were before; terms
 * among which is selected are handed over. */
static void reduce_chunk(const merge_worker *w, const merge_job *j, double *sums)
{
    const plan *p = j->plan->plan;
    const plan_pass *pass = &p->pass[j->pass];
    for (int i = 0; i < pass->nsums; i++) {
        const plan_total *t = &pass->sum[i];
        const void *terms = merge_worker_terms(w, j->pass, i);
        bool wide = p->number_type[t->number] != PROG_F32;
        if (t->fold < PLAN_FOLDS && !j->again)
            sums[i] =
                merge_fold_join(t->fold, sums[i], merge_fold_chunk(t->fold, wide, terms, w->n));
        else if (t->fold >= PLAN_FOLDS && !j->selected[t->number])
            merge_select_chunk(j->select[t->number], w->chunk, w->pool_worker, terms, w->n);
    }
}

/* Rounds the numbers of the chunk, the elements from `at` on of the piece, to the key's type. */
static int encode_chunk(const run *r, merge_worker *w, const merge_job *j, int64_t at, kv_err *e)
{
    char *to = w->out + tensor_type_bytes(j->type, at);
    int64_t bad = j->wide ? tensor_encode_f64(to, j->type, (double *)(void *)w->merged, w->n)
                          : tensor_encode_f32(to, j->type, (float *)(void *)w->merged, w->n);
    return bad < 0 ? KV_OK
                   : refuse_number(r, j, w->first, bad, j->wide ? TENSOR_F64 : TENSOR_F32,
                                   w->merged, e);
}

static int rule_piece(const run *r, merge_worker *w, const merge_job *j, const walk_piece *p,
                      kv_err *e)
{
    const plan_pass *pass = &j->plan->plan->pass[j->pass];
    double sums[PLAN_MAX_NUMBERS];
    bool stores = merge_job_stores(j, j->pass) && !j->again;
    bool direct = j->type == (j->wide ? TENSOR_F64 : TENSOR_F32);
    for (int i = 0; i < pass->nsums; i++)
        sums[i] = pass->sum[i].fold < PLAN_FOLDS ? merge_fold_begin(pass->sum[i].fold) : 0;
    int code = merge_worker_piece(w, j, p, e);
    int64_t chunk = p->number * j->chunks;
    for (int64_t at = 0; at < p->n && !code; at += MERGE_CHUNK, chunk++) {
        int64_t n = p->n - at < MERGE_CHUNK ? p->n - at : MERGE_CHUNK;
        merge_worker_chunk(w, p->first + at, n, chunk);
        void *to = stores && direct ? w->out + at * j->width : NULL;
        bool fused = j->fused && j->pass == j->plan->plan->npasses - 1 && n % MERGE_FUSED_TILE == 0;
        code = fused ? merge_worker_fuse(w, j->pass, to, e) : merge_worker_run(w, j->pass, to, e);
        if (!code && stores && !direct)
            code = encode_chunk(r, w, j, at, e);
        if (!code)
            reduce_chunk(w, j, sums);
    }
    if (!code && stores)
        code = put_piece(r, j, p, w->out, e);
    if (!code && !j->again && pass->nsums > 0)
        memcpy(j->results + p->number * pass->nsums, sums, (size_t)pass->nsums * sizeof *sums);
    return code;
}

/* The worker of a thread of the pool. There may be fewer of them than threads. */
static merge_worker *worker_of(run *r, int pool_worker)
{
    if (r->slot[pool_worker] == 0)
        r->slot[pool_worker] = atomic_fetch_add(&r->taken, 1) + 1;
    merge_worker *w = &r->workers[r->slot[pool_worker] - 1];
    w->pool_worker = pool_worker;
    return w;
}

static int handle_piece(void *arg, const walk_piece *p, int worker, kv_err *e)
{
    run *r = arg;
    const merge_job *j = r->active[p->tensor];
    merge_worker *w = worker_of(r, worker);
    return j->kind == MERGE_JOB_RULE ? rule_piece(r, w, j, p, e) : plain_piece(r, w, j, p, e);
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static void put_number(merge_job *j, int i, double x)
{
    float f = (float)x;
    if (j->plan->plan->number_type[i] == PROG_F32)
        memcpy(&j->number[i], &f, sizeof f);
    else
        memcpy(&j->number[i], &x, sizeof x);
}

static int begin_selections(merge_job *j, kv_err *e)
{
    const plan_pass *pass = &j->plan->plan->pass[j->pass];
    int code = KV_OK;
    for (int i = 0; i < pass->nsums && !code; i++)
        if (pass->sum[i].fold >= PLAN_FOLDS && !j->selected[pass->sum[i].number])
            code = merge_select_begin(j->select[pass->sum[i].number], e);
    return code;
}

/* Goes on to the next pass over elements; *ended if there is none. */
static void next_pass(run *r, merge_job *j, bool *ended)
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
        double sum = merge_fold_begin(pass->sum[i].fold);
        for (int64_t k = 0; k < j->npieces; k++)
            sum = merge_fold_join(pass->sum[i].fold, sum, j->results[k * pass->nsums + i]);
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
    run *r = arg;
    (void)worker;
    if (r->active[part]->kind == MERGE_JOB_RULE)
        end_selections(r->active[part]);
}

/* Ends a walk: what is left of it is active. */
static int end_walk(run *r, kv_err *e)
{
    int64_t left = 0;
    int code = KV_OK;
    pool_run(r->nactive, end_part, r);
    for (int64_t i = 0; i < r->nactive && !code; i++) {
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
            code = begin_selections(j, e);
        if (again || !ended)
            r->active[left++] = j;
    }
    r->nactive = left;
    return code;
}

/* ---- Samples --------------------------------------------------------------------------------- */

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
    int code = KV_OK;
    for (int64_t k = 0; k < runs && !code; k++) {
        int64_t at = (int64_t)(((uint64_t)k * 0x9E3779B97F4A7C15u) >> 40) % stride;
        s->w->block_n = 0;
        merge_worker_chunk(s->w, (k * stride + at) * RUN, RUN, 0);
        code = merge_worker_run(s->w, j->pass, NULL, e);
        for (int i = 0; i < s->nselects && !code; i++) {
            int64_t width = number_width(j, pass->sum[s->sum[i]].number);
            memcpy(s->terms[i] + k * RUN * width, merge_worker_terms(s->w, j->pass, s->sum[i]),
                   (size_t)(RUN * width));
        }
    }
    return code;
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
    int code = sample_runs(&s, e);
    for (int i = 0; i < s.nselects && !code; i++)
        merge_select_sample(j->select[pass->sum[s.sum[i]].number], s.terms[i], s.n);
    mem_free(terms);
    return code;
}

/* All jobs of a batch: threads take the next one until none is left. */
typedef struct sample_work {
    run *r;
    atomic_llong next;
    kv_err error[POOL_MAX_WORKERS];
} sample_work;

static void sample_part(void *arg, int64_t part, int worker)
{
    sample_work *s = arg;
    run *r = s->r;
    tensor_reader *readers[MERGE_INPUTS] = {0};
    kv_err *e = &s->error[part];
    int code = KV_OK;
    int64_t i;
    (void)worker;
    for (int k = 0; k < r->ninputs && !code; k++)
        code = tensor_reader_new(&readers[k], r->inputs[k], 0, e);
    while (!code && (i = atomic_fetch_add(&s->next, 1)) < r->nactive) {
        code = stop_check(e);
        if (!code && r->active[i]->kind == MERGE_JOB_RULE && !r->active[i]->again)
            code = sample_job(&r->workers[part], r->active[i], readers, e);
    }
    for (int k = 0; k < r->ninputs; k++)
        tensor_reader_free(readers[k]);
}

/* Before the first sweep of a pass. */
static int begin_walk(run *r, kv_err *e)
{
    int code = KV_OK;
    if (r->nselects == 0)
        return KV_OK;
    sample_work s = {.r = r};
    pool_run(r->nworkers, sample_part, &s);
    for (int i = 0; i < r->nworkers && !code; i++)
        if ((code = s.error[i].code) && e)
            *e = s.error[i];
    for (int64_t i = 0; i < r->nactive && !code; i++)
        if (r->active[i]->kind == MERGE_JOB_RULE && !r->active[i]->again)
            code = begin_selections(r->active[i], e);
    return code;
}

/* ---- Walks ----------------------------------------------------------------------------------- */

static int64_t bytes_of(const run *r, const merge_job *j)
{
    int64_t bytes = 0;
    for (int i = 0; i < r->ninputs; i++)
        bytes += j->at[i] >= 0 ? checkpoint_at(r->inputs[i], j->at[i])->bytes : 0;
    return bytes;
}

static void tell(void *arg, int64_t done, int64_t all)
{
    const run *r = arg;
    int64_t left = r->batch_left > all ? r->batch_left : all;
    if (r->m->progress)
        r->m->progress(r->m->progress_arg, r->done + done, r->done + left + r->left * r->passes);
}

static int walk_active(run *r, kv_err *e)
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
        bytes += bytes_of(r, j);
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
              .piece = handle_piece,
              .arg = r,
              .progress = tell,
              .progress_arg = r};
    int code = walk_run(&w, e);
    r->done += bytes;
    r->batch_left -= bytes;
    return code;
}

/* ---- Batches --------------------------------------------------------------------------------- */

static int read_factors(run *r, merge_job *j, const merge_factors *factors, kv_err *e)
{
    const merge *m = r->m;
    int64_t bytes = 0;
    int n = 0, code = KV_OK;
    for (int i = 0; i < m->nmodels; i++)
        bytes += factors[i].a < 0 ? 0 : merge_adapter_bytes(m->models[i], factors[i], j->wide);
    if (bytes > MERGE_FACTORS_BYTES)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "\"%.80s\": lora_A and lora_B of all adapters are too large to be held",
                          j->like->name);
    j->product = arena_alloc(&r->memory, MERGE_MODELS * sizeof *j->product, e);
    char *memory = arena_alloc(&r->memory, (size_t)bytes + MEM_ALIGN, e);
    if (!j->product || !memory)
        return KV_E_MEMORY;
    memory += -(uintptr_t)memory % MEM_ALIGN;
    for (int i = 0; i < m->nmodels && !code; i++) {
        if (factors[i].a < 0)
            continue;
        code = merge_adapter_read(&j->product[n++], memory, m->models[i], factors[i], j->wide, e);
        memory += merge_adapter_bytes(m->models[i], factors[i], j->wide);
    }
    return code;
}

/* The selections of a job, by number. */
static int make_selections(run *r, merge_job *j, kv_err *e)
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
            int code = merge_select_new(&j->select[t->number], t->fold, t->order,
                                        p->number_type[t->number] != PROG_F32, j->like->elements,
                                        j->npieces * j->chunks, e);
            if (code)
                return code;
            r->nselects++;
        }
    }
    return KV_OK;
}

/* What a rule's job has beside its plan. */
static int make_rule_job(run *r, merge_job *j, kv_err *e)
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
    j->results = arena_alloc(&r->memory, (size_t)results * sizeof *j->results + 1, e);
    if (!j->number || !j->cell || !j->select || !j->selected || !j->pass_of || !j->sum_of ||
        !j->draw || !j->results)
        return KV_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        j->cell[i] = &j->number[i];
    for (int i = 0; i < p->ndraws; i++)
        j->draw[i] = merge_draw_key_of(p->draw[i].seed, j->like->name, p->draw[i].stream);
    const plan_pass *last = &p->plan->pass[p->plan->npasses - 1];
    int64_t fused =
        last->elements && !j->wide && last->nsums == 0 ? merge_fused_bytes(last->elements) : 0;
    void *memory = fused ? arena_alloc(&r->memory, (size_t)fused, e) : NULL;
    if (fused && !memory)
        return KV_E_MEMORY;
    j->fused = fused ? merge_fused_make(memory, last->elements) : NULL;
    return make_selections(r, j, e);
}

static void release_jobs(run *r)
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

/* Adds the next key to the batch. */
static int add_job(run *r, kv_err *e)
{
    merge_factors factors[MERGE_MODELS];
    merge_job *j = &r->jobs[r->njobs++];
    int code = merge_job_find(j, factors, r->m, r->next++, e);
    if (code)
        return code;
    bool rule = j->kind == MERGE_JOB_RULE && j->like->elements > 0;
    if (rule)
        code = merge_plans_get(r->plans, &j->plan, &j->own, j->like, j->wide, factors, e);
    if (!code && !rule && j->kind == MERGE_JOB_RULE)
        j->kind = MERGE_JOB_COPY; /* of no elements */
    if (!code)
        code = merge_job_cut(j, e);
    if (!code && rule)
        code = make_rule_job(r, j, e);
    if (!code && rule && r->m->adapters)
        code = read_factors(r, j, factors, e);
    if (!code)
        merge_room_add(&r->room, j, r->ninputs);
    return code;
}

/* Fills a batch; sets what it has to read. */
static int fill_batch(run *r, kv_err *e)
{
    int64_t bytes = 0, weighed = 0;
    int code = KV_OK;
    r->room = (merge_room){0};
    r->batch_left = 0;
    while (!code && r->next < r->m->nkeys && r->njobs < BATCH_KEYS && weighed < BATCH_BYTES &&
           r->memory.total_bytes < (size_t)MERGE_FACTORS_BYTES) {
        code = add_job(r, e);
        if (code)
            break;
        const merge_job *j = &r->jobs[r->njobs - 1];
        int64_t n = bytes_of(r, j), passes = j->plan ? j->plan->plan->npasses : 1;
        bytes += n;
        weighed += passes > 1 ? n : n / 64;
        r->batch_left += n * passes;
    }
    r->left -= bytes;
    r->passes = bytes > 0 ? (r->batch_left + bytes - 1) / bytes : 1;
    return code;
}

/* Workers for the jobs of the batch. Their memory is kept for the next one. */
static int make_workers(run *r, kv_err *e)
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

static int run_batch(run *r, kv_err *e)
{
    int code = fill_batch(r, e);
    if (!code)
        code = make_workers(r, e);
    r->nactive = 0;
    for (int64_t i = 0; i < r->njobs && !code; i++) {
        merge_job *j = &r->jobs[i];
        bool ended = j->like->elements == 0;
        if (j->kind == MERGE_JOB_RULE) {
            next_pass(r, j, &ended);
            for (int k = 0; k < j->plan->plan->nnumbers; k++)
                if (j->select[k])
                    merge_select_room(j->select[k], KEPT_BYTES / 8 / r->nselects);
        }
        if (!ended)
            r->active[r->nactive++] = j;
    }
    while (!code && r->nactive > 0) {
        code = begin_walk(r, e);
        if (!code)
            code = walk_active(r, e);
        if (!code)
            code = end_walk(r, e);
    }
    release_jobs(r);
    return code;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int open_out(run *r, const char *path, const checkpoint_out_options *o, kv_err *e)
{
    const merge *m = r->m;
    merge_factors factors[MERGE_MODELS];
    checkpoint_entry *entries = mem_alloc(m->nkeys, sizeof *entries, e);
    int code = entries ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < m->nkeys && !code; i++) {
        merge_job j;
        code = merge_job_find(&j, factors, m, i, e);
        if (code)
            break;
        entries[i] = (checkpoint_entry){m->keys[i].name, j.type, j.like->ndim, j.like->shape};
        r->left += bytes_of(r, &j);
    }
    if (!code)
        code =
            checkpoint_out_open(&r->out, path, entries, m->nkeys, m->metadata, m->nmetadata, o, e);
    mem_free(entries);
    return code;
}

static int make_memory(run *r, kv_err *e)
{
    r->jobs = mem_zalloc(BATCH_KEYS, sizeof *r->jobs, e);
    r->active = mem_alloc(BATCH_KEYS, sizeof(merge_job *), e);
    r->at = mem_alloc(BATCH_KEYS * (int64_t)r->ninputs, sizeof *r->at, e);
    r->pieces = mem_alloc(BATCH_KEYS, sizeof *r->pieces, e);
    r->workers = mem_zalloc(pool_workers(), sizeof *r->workers, e);
    return r->jobs && r->active && r->at && r->pieces && r->workers ? KV_OK : KV_E_MEMORY;
}

static void release(run *r)
{
    merge_plans_free(r->plans);
    mem_free(r->jobs);
    mem_free(r->active);
    mem_free(r->at);
    mem_free(r->pieces);
    mem_free(r->workers);
    mem_free_data(r->worker_memory);
}

int merge_run(const merge *m, const char *path, const checkpoint_out_options *o, kv_err *e)
{
    run r = {.m = m, .passes = 1};
    for (int i = 0; i < m->nmodels; i++)
        r.inputs[r.ninputs++] = m->models[i];
    if (m->base)
        r.inputs[r.ninputs++] = m->base;
    int code = make_memory(&r, e);
    if (!code)
        code = merge_plans_new(&r.plans, m, e);
    if (!code)
        code = open_out(&r, path, o, e);
    while (!code && r.next < m->nkeys)
        code = run_batch(&r, e);
    release(&r);
    if (!code)
        return checkpoint_out_commit(r.out, e);
    checkpoint_out_abandon(r.out);
    return code;
}
