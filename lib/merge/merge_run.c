/* Runs of merges. Keys are taken in batches: each pass goes over all keys of a batch before the
 * next one begins, so small keys keep all threads busy, and pages that a pass has entered are there
 * when the next one reads them. Pieces are those of walk.h, or whole rows where rows are
 * ranked.
 *
 * Sums: chunks of MERGE_CHUNK elements (kernel_fold.h), chunks in order within a piece, pieces in
 * order, all in float64, rounded once to the number's type.
 *
 * An element that is not finite, though all that it was made of is, has most often left the range
 * of float32 on the way: (-3e38 + -3e38) / 2. Then the key is merged again, all of it, in float64.
 * If that does not help any element, as with 1 / 0, it is merged as before, and they are counted as
 * lost. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/xxh64.h"
#include "checkpoint/tensor_codec.h"
#include "engine/pool.h"
#include "merge/merge_job.h"
#include "tensors/conversion.h"
#include "tensors/number_loops.h"
#include "vm/kernel_fold.h"

/* The most keys of a batch, since each takes memory while the batch runs. */
#define MERGE_BATCH_KEYS 1024

/* The bytes of the terms that all selections of a batch keep, with room for as many. */
#define MERGE_KEPT_BYTES ((int64_t)48 << 20)

/* A key that is merged, most often again. See merge_job for the rest. */
typedef struct merge_repeat {
    int64_t key;
    bool wide, last;
    int64_t lost;
} merge_repeat;

typedef struct merging {
    const merge *m;
    checkpoint *inputs[MERGE_INPUTS];
    int ninputs;
    merge_plans *plans;
    checkpoint_out *out;
    int64_t next; /* the first key that no batch had yet */

    /* The batch. */
    merge_job *jobs; /* room for MERGE_BATCH_KEYS, njobs of them in use */
    int64_t njobs;
    arena memory; /* of the jobs */
    merge_room room;
    int64_t nselects, kept; /* selections, and terms that they may all keep */

    /* The jobs that the next walk goes over: they have another pass, or a sweep of this one. */
    merge_job **active;
    merge_repeat *repeats; /* room for MERGE_BATCH_KEYS */
    int64_t nactive;
    int64_t *at, *pieces; /* of the active jobs, as walk.h wants them */

    merge_worker *workers;
    char *worker_memory;
    int64_t worker_bytes;
    int nworkers;
    atomic_int taken;           /* workers that have a thread */
    int slot[POOL_MAX_WORKERS]; /* by thread of the pool: the index of its worker plus 1; 0: none */

    /* For progress. */
    int64_t done;       /* bytes of the walks before */
    int64_t left;       /* bytes of the keys that no batch had yet */
    int64_t passes;     /* of the last batch, on average over its bytes, rounded up */
    int64_t batch_left; /* bytes of the passes of the batch that are to come */
} merging;

/* ---- Batches: the next keys, each a job with its plan, and workers with room for any of them ---
 */

/* A batch ends behind so many bytes of inputs, which is what its inputs that are mapped for all
 * passes have at most: threads wait at the end of each pass, and mapped pages are resident. Keys
 * with one pass count a 64th of theirs. */
#define BATCH_BYTES ((int64_t)64 << 20)

/* Inputs of fewer bytes are not mapped for all passes, so that there are few. */
#define MAPPED_LEAST ((int64_t)256 << 10)

#define WORKERS_BYTES ((int64_t)128 << 20) /* of all workers together */

static int64_t input_bytes(const merging *r, const merge_job *j)
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
    for (int i = 0; i < m->nmodels; i++) {
        if (factors[i].a < 0)
            continue;
        merge_product *to = &j->product[j->nproducts++];
        TRY(merge_adapter_read(to, memory, m->models[i], factors[i], j->wide, e));
        memory += merge_adapter_bytes(m->models[i], factors[i], j->wide);
    }
    return KV_OK;
}

/* The selections of a job, by number. */
static int make_selections(merging *r, merge_job *j, kv_err *e)
{
    const plan *p = j->plan->plan;
    for (int k = 0; k < p->npasses; k++) {
        const plan_pass *pass = &p->pass[k];
        for (int i = 0; i < pass->nsums; i++) {
            const plan_total *t = &pass->sum[i];
            merge_number *number = &j->number[t->number];
            number->pass = (int16_t)k;
            number->sum = (int16_t)i;
            if (t->fold < PLAN_FOLDS)
                continue;
            TRY(merge_select_new(&number->select, t->fold, t->order,
                                 p->number_type[t->number] != PROG_F32, j->like->elements,
                                 j->npieces * j->chunks, e));
            r->nselects++;
            r->kept += at_most(j->like->elements, MERGE_SELECT_KEEPS);
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
    j->draw = arena_alloc(&r->memory, (size_t)p->ndraws * sizeof *j->draw + 1, e);
    j->lost = arena_alloc(&r->memory, sizeof *j->lost, e);
    j->mapped = arena_alloc(&r->memory, (size_t)r->ninputs * sizeof *j->mapped, e);
    j->results = arena_alloc(&r->memory, (size_t)results * sizeof *j->results + 1, e);
    if (!j->number || !j->draw || !j->lost || !j->mapped || !j->results)
        return KV_E_MEMORY;
    /* Random numbers follow from the seed, the text of the key, a stream, and the place of an
     * element. So neither threads nor blocks, shards or other keys change them. */
    for (int i = 0; i < p->ndraws; i++) {
        uint64_t parts[] = {xxh64(j->like->name, strlen(j->like->name)),
                            (uint64_t)p->draw[i].stream};
        j->draw[i] = xxh64(parts, sizeof parts);
    }
    return make_selections(r, j, e);
}

/* All threads release jobs, since the system takes out mapped pages one by one. */
static void release_job(void *arg, int64_t part, int worker)
{
    const merging *r = arg;
    merge_job *j = &r->jobs[part];
    (void)worker;
    for (int k = 0; j->number && k < j->plan->plan->nnumbers; k++)
        merge_select_free(j->number[k].select);
    for (int k = 0; j->mapped && k < r->ninputs; k++) {
        file_window_close(&j->mapped[k].window);
        mem_free_data(j->mapped[k].kept);
    }
    merge_plan_release(&j->own);
}

static void release_batch(merging *r)
{
    pool_run(r->njobs, release_job, r);
    r->njobs = 0;
    r->nselects = r->kept = 0;
    arena_release(&r->memory);
}

/* Adds a key to the batch. */
static int add_job(merging *r, const merge_repeat *as, kv_err *e)
{
    merge_factors factors[MERGE_MODELS];
    merge_job *j = &r->jobs[r->njobs++];
    TRY(merge_job_find(j, factors, r->m, as->key, e));
    j->last = as->last || j->wide;
    j->lost_before = as->lost;
    j->wide |= as->wide;
    j->width = j->wide ? 8 : 4;
    bool rule = j->kind == MERGE_JOB_RULE && j->like->elements > 0;
    TRY(rule ? merge_plans_get(r->plans, j, factors, e) : KV_OK);
    if (!rule && j->kind == MERGE_JOB_RULE)
        j->kind = MERGE_JOB_COPY; /* of no elements */
    TRY(merge_job_cut(j, e));
    TRY(rule ? make_rule_job(r, j, e) : KV_OK);
    TRY(rule && r->m->adapters ? read_factors(r, j, factors, e) : KV_OK);
    merge_room_add(&r->room, j, r->ninputs);
    return KV_OK;
}

/* How often a job goes over its inputs. */
static int64_t count_walks(const merge_job *j)
{
    int64_t n = j->plan == NULL;
    for (int i = 0; j->plan && i < j->plan->plan->npasses; i++)
        n += !plan_pass_is_of_numbers(&j->plan->plan->pass[i]);
    return n;
}

/* Adds keys until the batch is large enough, and estimates the bytes that its passes read. */
static int fill_batch(merging *r, kv_err *e)
{
    int64_t bytes = 0, weighed = 0;
    r->room = (merge_room){0};
    r->batch_left = 0;
    while (r->next < r->m->nkeys && r->njobs < MERGE_BATCH_KEYS && weighed < BATCH_BYTES &&
           r->kept < MERGE_KEPT_BYTES / 8 && r->memory.total_bytes < (size_t)MERGE_FACTORS_BYTES) {
        TRY(add_job(r, &(merge_repeat){.key = r->next++}, e));
        const merge_job *j = &r->jobs[r->njobs - 1];
        int64_t n = input_bytes(r, j), passes = count_walks(j);
        bytes += n;
        weighed += passes > 1 ? n : n / 64;
        r->batch_left += n * passes;
    }
    r->left -= bytes;
    r->passes = bytes > 0 ? (r->batch_left + bytes - 1) / bytes : 1;
    return KV_OK;
}

static int repeat_batch(merging *r, const merge_repeat *keys, int64_t n, int64_t *taken, kv_err *e)
{
    r->room = (merge_room){0};
    *taken = 0;
    while (*taken < n && r->memory.total_bytes < (size_t)MERGE_FACTORS_BYTES) {
        const merge_repeat *k = &keys[(*taken)++];
        TRY(add_job(r, k, e));
        checkpoint_out_again(r->out, k->key);
        for (int i = 0; r->m->lost && i < LOSSES_KINDS; i++)
            atomic_store(&r->m->lost->keys[k->key].count[i], 0);
    }
    return KV_OK;
}

/* Workers for the jobs of the batch, fewer than threads where their memory would be too much. It is
 * kept for the next batch. */
static int make_workers(merging *r, kv_err *e)
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

/* Memory for the blocks of an input that is inflated. Without any each pass inflates it again.
 * Blocks begin at multiples of MERGE_BLOCK but where rows are ranked. */
static void keep_input(merging *r, const merge_job *j, merge_mapped *m, int64_t bytes)
{
    size_t blocks = (size_t)(j->like->elements / MERGE_BLOCK + 1);
    if (j->piece % MERGE_BLOCK == 0 && (m->has = arena_alloc(&r->memory, blocks, &(kv_err){0})))
        m->kept = mem_alloc_data(bytes, &(kv_err){0});
}

/* Maps inputs of the batch that more than one pass reads: the later ones find the pages entered.
 * Other inputs are mapped by parts, or read. */
static void map_inputs(merging *r)
{
    int64_t left = BATCH_BYTES;
    for (int64_t i = 0; i < r->njobs; i++) {
        merge_job *j = &r->jobs[i];
        bool serves = j->kind == MERGE_JOB_RULE && count_walks(j) > 1;
        for (int k = 0; k < r->ninputs && serves; k++) {
            if (j->at[k] < 0)
                continue;
            const tensor_info *t = checkpoint_at(r->inputs[k], j->at[k]);
            bool inflated = t->form & TENSOR_DEFLATED;
            if (t->bytes > left || (t->bytes < MAPPED_LEAST && !inflated))
                continue;
            left -= t->bytes;
            if (inflated)
                keep_input(r, j, &j->mapped[k], t->bytes);
            else
                j->mapped[k].bytes = tensor_map(&j->mapped[k].window, r->inputs[k], j->at[k]);
        }
    }
}

/* Checks that no file became shorter. */
static int check_inputs(const merging *r, kv_err *e)
{
    for (int64_t i = 0; i < r->njobs; i++)
        for (int k = 0; r->jobs[i].kind == MERGE_JOB_RULE && k < r->ninputs; k++)
            TRY(file_window_check(&r->jobs[i].mapped[k].window, e));
    return KV_OK;
}

/* ---- Pieces: messages ---- */

/* Element `first + i` does not fit the key's type: it is number i of data. */
static int refuse_number(const merging *r, const merge_job *j, int64_t first, int64_t i,
                         tensor_type type, const void *data, kv_err *e)
{
    own_buf place = {0}, text = {0};
    tensor_words_place(&place, j->like, first + i);
    tensor_words_number(&text, type, data, i);
    file_bad(e, KV_E_VALUE, checkpoint_name(merge_first(r->m)),
             "\"%.80s\" becomes %s at %s, which %s cannot hold", j->like->name, buf_text(&text),
             buf_text(&place), tensor_type_name(j->type));
    return KV_E_VALUE;
}

/* The end of a conversion of elements from `first` on: element `bad` did not fit, or it is -1. */
static int end_losses(const merging *r, const merge_job *j, int64_t first, int64_t bad,
                      const tensor_loss *loss, tensor_type type, const void *data, kv_err *e)
{
    losses *lost = r->m->lost;
    bool refused = bad < 0 && lost && lost->strict && loss->first >= 0;
    if (bad >= 0)
        return refuse_number(r, j, first, bad, type, data, e);
    if (refused) {
        refuse_number(r, j, first, loss->first, type, data, e);
        return kv_err_hint(e, LOSSES_HINT), KV_E_VALUE;
    }
    losses_add(lost, j->key, loss);
    return KV_OK;
}

/* Converts n elements, those from `first` on of the key, to its type. */
static int encode(const merging *r, const merge_job *j, void *to, const void *data,
                  tensor_type from, int64_t first, int64_t n, kv_err *e)
{
    tensor_loss loss = {.first = -1};
    int64_t bad = tensor_convert_counting(to, j->type, data, from, n, r->m->lost ? &loss : NULL);
    return end_losses(r, j, first, bad, &loss, from, data, e);
}

/* Element i of two blocks is the first that differs. */
static int refuse_difference(const merging *r, const merge_job *j, int input, int64_t first,
                             int64_t i, const void *like, const void *other, kv_err *e)
{
    own_buf place = {0}, one = {0}, two = {0};
    tensor_words_place(&place, j->like, first + i);
    tensor_words_number(&one, j->like->type, like, i);
    tensor_words_number(&two, j->like->type, other, i);
    file_bad(e, KV_E_VALUE, checkpoint_name(r->inputs[input]),
             "\"%.80s\" is %s at %s, in %.120s %s", j->like->name, buf_text(&two), buf_text(&place),
             checkpoint_name(merge_first(r->m)), buf_text(&one));
    return kv_err_hint(e,
                       "keys of integers must be equal; --keep-first takes those of %.120s, "
                       "--exclude leaves keys out",
                       checkpoint_name(merge_first(r->m))),
           KV_E_VALUE;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static int put_piece(const merging *r, const merge_job *j, const walk_piece *p, const void *data,
                     kv_err *e)
{
    return checkpoint_out_put(r->out, j->key, tensor_type_bytes(j->type, p->first), data,
                              tensor_type_bytes(j->type, p->n), e);
}

static int read_block(const merge_job *j, int input, const walk_piece *p, int64_t first, int64_t n,
                      const void **data, kv_err *e)
{
    tensor_type t = j->types[input];
    return tensor_read(p->readers[input], data, j->at[input], tensor_type_bytes(t, first),
                       tensor_type_bytes(t, n), e);
}

/* Refuses n elements, at data in input `like`, that are not the same in all inputs. */
static int check_equal(const merging *r, const merge_job *j, int like, const walk_piece *p,
                       int64_t first, int64_t n, const void *data, kv_err *e)
{
    const void *other;
    int64_t width = tensor_type_bytes(j->type, 1);
    for (int i = 0; i < r->ninputs; i++) {
        if (i == like || j->at[i] < 0)
            continue;
        TRY(read_block(j, i, p, first, n, &other, e));
        if (memcmp(data, other, (size_t)(n * width)) == 0)
            continue;
        const char *a = data, *b = other;
        int64_t at = 0;
        while (memcmp(a + at * width, b + at * width, (size_t)width) == 0)
            at++;
        return refuse_difference(r, j, i, first, at, data, other, e);
    }
    return KV_OK;
}

/* A piece of a key that no rule is for. */
static int plain_piece(const merging *r, merge_worker *w, const merge_job *j, const walk_piece *p,
                       kv_err *e)
{
    int like = r->m->base ? r->m->nmodels : 0;
    for (int64_t at = 0; at < p->n; at += MERGE_BLOCK) {
        int64_t n = p->n - at < MERGE_BLOCK ? p->n - at : MERGE_BLOCK, first = p->first + at;
        char *to = w->out + tensor_type_bytes(j->type, at);
        const void *data;
        TRY(read_block(j, like, p, first, n, &data, e));
        TRY(j->kind == MERGE_JOB_EQUAL ? check_equal(r, j, like, p, first, n, data, e)
                                       : encode(r, j, to, data, j->like->type, first, n, e));
        if (j->kind == MERGE_JOB_EQUAL)
            memcpy(to, data, (size_t)tensor_type_bytes(j->type, n));
    }
    return put_piece(r, j, p, w->out, e);
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
        prog_type type = (prog_type)p->number_type[t->number];
        if (t->fold < PLAN_FOLDS && !j->again)
            sums[i] =
                kernel_fold_join(t->fold, sums[i], kernel_fold_chunk(t->fold, type, terms, w->n));
        else if (t->fold >= PLAN_FOLDS && !j->number[t->number].selected)
            merge_select_chunk(j->number[t->number].select, w->chunk, w->pool_worker, terms, w->n);
    }
}

/* Looks for elements of the chunk, merged at `merged`, that overflowed, and counts them: as lost,
 * or *again becomes true, since the key is to be merged again. */
static int check_chunk(const merging *r, merge_worker *w, const merge_job *j, const void *merged,
                       bool *again, kv_err *e)
{
    bool lost[MERGE_CHUNK];
    tensor_loss loss = {.first = -1};
    *again = false;
    if (j->wide ? stat_finite_f64(merged, w->n) : stat_finite_f32(merged, w->n))
        return KV_OK;
    int rc = merge_worker_lost(w, merged, lost, e);
    for (int64_t i = 0; i < w->n && !rc; i++) {
        bool is_nan =
            j->wide ? isnan(((const double *)merged)[i]) : isnan(((const float *)merged)[i]);
        if (lost[i] && loss.first < 0)
            loss.first = i;
        *(is_nan ? &loss.nan : &loss.inf) += lost[i];
    }
    if (rc || loss.first < 0)
        return rc;
    if (j->last)
        return end_losses(r, j, w->first, -1, &loss, j->wide ? TENSOR_F64 : TENSOR_F32, merged, e);
    *again = true;
    if (atomic_fetch_add(j->lost, loss.nan + loss.inf) == 0)
        checkpoint_out_wait(r->out, j->key);
    return KV_OK;
}

/* Puts the merged elements of the chunk where the piece of the output has them; direct: they are
 * there. */
static int store_chunk(const merging *r, merge_worker *w, const merge_job *j, char *to, bool direct,
                       kv_err *e)
{
    bool again;
    const void *merged = direct ? to : w->merged;
    if (j->type == TENSOR_BF16 && !j->wide && tensor_encode_finite(to, merged, w->n))
        return KV_OK;
    TRY(check_chunk(r, w, j, merged, &again, e));
    tensor_type from = j->wide ? TENSOR_F64 : TENSOR_F32;
    return direct || again ? KV_OK : encode(r, j, to, merged, from, w->first, w->n, e);
}

/* The elements of a piece, chunk by chunk. */
static int rule_chunks(const merging *r, merge_worker *w, const merge_job *j, const walk_piece *p,
                       bool stores, double *sums, kv_err *e)
{
    bool direct = j->type == (j->wide ? TENSOR_F64 : TENSOR_F32), done = false;
    TRY(merge_worker_piece(w, j, p, e));
    int64_t chunk = p->number * j->chunks;
    for (int64_t at = 0; at < p->n; at += MERGE_CHUNK, chunk++) {
        int64_t n = p->n - at < MERGE_CHUNK ? p->n - at : MERGE_CHUNK;
        merge_worker_chunk(w, p->first + at, n, chunk);
        char *to = w->out + tensor_type_bytes(j->type, at);
        if (stores && j->type == TENSOR_BF16 && !j->wide)
            TRY(merge_worker_pack(w, j->pass, to, &done, e));
        if (done)
            continue; /* no sum is made beside */
        TRY(merge_worker_run(w, j->pass, stores && direct ? to : NULL, e));
        TRY(stores ? store_chunk(r, w, j, to, direct, e) : KV_OK);
        reduce_chunk(w, j, sums);
    }
    return KV_OK;
}

static int rule_piece(const merging *r, merge_worker *w, const merge_job *j, const walk_piece *p,
                      kv_err *e)
{
    const plan_pass *pass = &j->plan->plan->pass[j->pass];
    double sums[PLAN_MAX_NUMBERS];
    bool stores = merge_job_uses(j, j->pass, MERGE_MERGED) && !j->again;
    for (int i = 0; i < pass->nsums; i++)
        sums[i] = pass->sum[i].fold < PLAN_FOLDS ? kernel_fold_begin(pass->sum[i].fold) : 0;
    TRY(rule_chunks(r, w, j, p, stores, sums, e));
    TRY(stores ? put_piece(r, j, p, w->out, e) : KV_OK);
    if (!j->again && pass->nsums > 0)
        memcpy(j->results + p->number * pass->nsums, sums, (size_t)pass->nsums * sizeof *sums);
    return KV_OK;
}

static int handle_piece(void *arg, const walk_piece *p, int worker, kv_err *e)
{
    merging *r = arg;
    const merge_job *j = r->active[p->tensor];
    /* there may be fewer workers than threads of the pool */
    if (r->slot[worker] == 0)
        r->slot[worker] = atomic_fetch_add(&r->taken, 1) + 1;
    merge_worker *w = &r->workers[r->slot[worker] - 1];
    w->pool_worker = worker;
    return j->kind == MERGE_JOB_RULE ? rule_piece(r, w, j, p, e) : plain_piece(r, w, j, p, e);
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static void put_number(merge_job *j, int i, double x)
{
    prog_number_put(&j->number[i].value, (prog_type)j->plan->plan->number_type[i],
                    (prog_number){x});
}

static int begin_selections(merge_job *j, kv_err *e)
{
    const plan_pass *pass = &j->plan->plan->pass[j->pass];
    for (int i = 0; i < pass->nsums; i++)
        if (pass->sum[i].fold >= PLAN_FOLDS && !j->number[pass->sum[i].number].selected)
            TRY(merge_select_begin(j->number[pass->sum[i].number].select, e));
    return KV_OK;
}

/* Goes on to the next pass over elements, and computes the numbers on the way; *ended becomes true
 * if there is none. */
static void next_pass(merging *r, merge_job *j, bool *ended)
{
    const plan *p = j->plan->plan;
    *ended = true;
    while (*ended && ++j->pass < p->npasses) {
        const plan_pass *pass = &p->pass[j->pass];
        void *at[PLAN_MAX_SLOTS];
        *ended = plan_pass_is_of_numbers(pass);
        for (int s = 0; s < pass->nslots && *ended; s++)
            at[s] = &j->number[plan_slot_index(pass->slot[s])].value;
        if (*ended)
            prog_run(pass->program, at, 1, r->workers[0].scratch);
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
static void end_selections(void *arg, int64_t part, int worker)
{
    merge_job *j = ((merging *)arg)->active[part];
    (void)worker;
    if (j->kind != MERGE_JOB_RULE)
        return;
    const plan_pass *pass = &j->plan->plan->pass[j->pass];
    j->again = false;
    for (int i = 0; i < pass->nsums; i++) {
        merge_number *n = &j->number[pass->sum[i].number];
        bool more;
        if (pass->sum[i].fold < PLAN_FOLDS || n->selected)
            continue;
        merge_select_end(n->select, &more);
        n->selected = !more;
        j->again |= more;
        if (!more)
            put_number(j, pass->sum[i].number, merge_select_number(n->select));
    }
}

/* Ends a walk: takes the jobs out of `active` that have neither a sweep nor a pass left. */
static int end_walk(merging *r, kv_err *e)
{
    int64_t left = 0;
    pool_run(r->nactive, end_selections, r);
    for (int64_t i = 0; i < r->nactive; i++) {
        merge_job *j = r->active[i];
        bool ended = true;
        if (j->kind != MERGE_JOB_RULE)
            continue;
        bool again = j->again;
        if (!again) {
            end_sums(j);
            next_pass(r, j, &ended);
        }
        TRY(again ? begin_selections(j, e) : KV_OK);
        if (again || !ended)
            r->active[left++] = j;
    }
    r->nactive = left;
    return KV_OK;
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

static int sample_runs(sampling *s, kv_err *e)
{
    const merge_job *j = s->j;
    const plan_pass *pass = &j->plan->plan->pass[j->pass];
    int64_t runs = s->n / RUN, stride = j->like->elements / RUN / runs;
    for (int64_t k = 0; k < runs; k++) {
        int64_t at = (int64_t)(((uint64_t)k * 0x9E3779B97F4A7C15u) >> 40) % stride;
        s->w->block_n = 0;
        merge_worker_chunk(s->w, (k * stride + at) * RUN, RUN, 0);
        TRY(merge_worker_run(s->w, j->pass, NULL, e));
        for (int i = 0; i < s->nselects; i++) {
            int number = pass->sum[s->sum[i]].number;
            int64_t width = j->plan->plan->number_type[number] == PROG_F32 ? 4 : 8;
            memcpy(s->terms[i] + k * RUN * width, merge_worker_terms(s->w, j->pass, s->sum[i]),
                   (size_t)(RUN * width));
        }
    }
    return KV_OK;
}

/* Samples for all selections of the job's pass. */
static int sample_job(merge_worker *w, merge_job *j, tensor_reader *const *readers, kv_err *e)
{
    const plan_pass *pass = &j->plan->plan->pass[j->pass];
    sampling s = {.w = w, .j = j};
    for (int i = 0; i < pass->nsums; i++) {
        int64_t n = pass->sum[i].fold < PLAN_FOLDS
                        ? 0
                        : merge_select_sample_size(j->number[pass->sum[i].number].select);
        if (n > 0)
            s.sum[s.nselects++] = i;
        s.n = n > s.n ? n : s.n;
    }
    if (s.nselects == 0 || (j->plan->nranks > 0 && merge_job_uses(j, j->pass, MERGE_RANK)))
        return KV_OK;
    s.n = s.n < SAMPLE_BYTES / 8 / s.nselects ? s.n : SAMPLE_BYTES / 8 / s.nselects;
    s.n -= s.n % RUN;
    own_mem char *terms = mem_alloc(s.n * (s.nselects + 1), 8, e);
    if (!terms)
        return KV_E_MEMORY;
    for (int i = 0; i < s.nselects; i++)
        s.terms[i] = terms + i * s.n * 8;
    merge_worker_job(w, j, readers);
    w->block_most = RUN;
    TRY(sample_runs(&s, e));
    for (int i = 0; i < s.nselects; i++)
        merge_select_sample(j->number[pass->sum[s.sum[i]].number].select, s.terms[i], s.n,
                            terms + s.nselects * s.n * 8);
    return KV_OK;
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
            int64_t n = j->at[k] < 0 ? 0 : tensor_type_bytes(j->types[k], MERGE_BLOCK);
            block = n > block ? n : block;
        }
        r->pieces[i] = j->piece;
        bytes += input_bytes(r, j);
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
    int rc = walk_run(&w, e);
    r->done += bytes;
    r->batch_left -= bytes;
    return rc;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* The passes of the jobs of the batch. */
static int run_jobs(merging *r, kv_err *e)
{
    TRY(make_workers(r, e));
    map_inputs(r);
    r->nactive = 0;
    for (int64_t i = 0; i < r->njobs; i++) {
        merge_job *j = &r->jobs[i];
        bool ended = j->like->elements == 0;
        if (j->kind == MERGE_JOB_RULE) {
            next_pass(r, j, &ended);
            for (int k = 0; k < j->plan->plan->nnumbers; k++)
                if (j->number[k].select)
                    merge_select_room(j->number[k].select,
                                      MERGE_KEPT_BYTES / (2 * j->width) / r->nselects);
        }
        if (!ended)
            r->active[r->nactive++] = j;
    }
    while (r->nactive > 0) {
        /* samples and begins the selections of passes that have not begun */
        TRY(r->nselects > 0 ? sample_terms(r, e) : KV_OK);
        for (int64_t i = 0; i < r->nactive && r->nselects > 0; i++)
            if (r->active[i]->kind == MERGE_JOB_RULE && !r->active[i]->again)
                TRY(begin_selections(r->active[i], e));
        TRY(walk_active(r, e));
        TRY(end_walk(r, e));
    }
    return check_inputs(r, e);
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
        rc = repeat_batch(r, r->repeats, n, &taken, e);
        if (!rc)
            rc = run_jobs(r, e);
        memmove(r->repeats, r->repeats + taken, (size_t)(n - taken) * sizeof *r->repeats);
        if (!rc)
            n += find_repeats(r, r->repeats + n - taken);
        release_batch(r);
    }
    return rc;
}

static int run_batch(merging *r, kv_err *e)
{
    int rc = fill_batch(r, e);
    if (!rc)
        rc = run_jobs(r, e);
    int64_t n = rc ? 0 : find_repeats(r, r->repeats);
    release_batch(r);
    return rc ? rc : run_repeats(r, n, e);
}

static int open_out(merging *r, const char *path, const checkpoint_out_options *o, kv_err *e)
{
    const merge *m = r->m;
    merge_factors factors[MERGE_MODELS];
    own_mem checkpoint_entry *entries = mem_alloc(m->nkeys, sizeof *entries, e);
    if (!entries)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < m->nkeys; i++) {
        merge_job j;
        TRY(merge_job_find(&j, factors, m, i, e));
        entries[i] = (checkpoint_entry){m->keys[i].name, j.type, j.like->ndim, j.like->shape};
        r->left += input_bytes(r, &j);
    }
    return checkpoint_out_open(&r->out, path, entries, m->nkeys, m->metadata, m->nmetadata, o, e);
}

int merge_run(const merge *m, const char *path, const checkpoint_out_options *o, kv_err *e)
{
    own_arena lists = {0};
    merging r = {.m = m, .passes = 1};
    for (int i = 0; i < m->nmodels; i++)
        r.inputs[r.ninputs++] = m->models[i];
    if (m->base)
        r.inputs[r.ninputs++] = m->base;
    r.jobs = arena_alloc(&lists, MERGE_BATCH_KEYS * sizeof *r.jobs, e);
    r.active = arena_alloc(&lists, MERGE_BATCH_KEYS * sizeof(merge_job *), e);
    r.repeats = arena_alloc(&lists, MERGE_BATCH_KEYS * sizeof *r.repeats, e);
    r.at = arena_alloc(&lists, MERGE_BATCH_KEYS * (size_t)r.ninputs * sizeof *r.at, e);
    r.pieces = arena_alloc(&lists, MERGE_BATCH_KEYS * sizeof *r.pieces, e);
    r.workers = arena_alloc(&lists, (size_t)pool_workers() * sizeof *r.workers, e);
    int rc = r.jobs && r.active && r.repeats && r.at && r.pieces && r.workers ? KV_OK : KV_E_MEMORY;
    if (!rc && !(r.plans = merge_plans_new(m, e)))
        rc = KV_E_MEMORY;
    if (!rc)
        rc = open_out(&r, path, o, e);
    while (!rc && r.next < m->nkeys)
        rc = run_batch(&r, e);
    merge_plans_free(r.plans);
    mem_free_data(r.worker_memory);
    if (!rc)
        return checkpoint_out_commit(r.out, e);
    checkpoint_out_abandon(r.out);
    return rc;
}
