/* Pieces of keys: read, computed or compared, rounded to the type that the key gets, written. */
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "checkpoint/tensor_codec.h"
#include "merge/merge_run.h"
#include "tensors/losses.h"
#include "tensors/number_loops.h"
#include "vm/kernel_fold.h"

/* ---- Messages -------------------------------------------------------------------------------- */

/* Element `first + i` does not fit the key's type: it is number i of data. */
static int refuse_number(const merging *r, const merge_job *j, int64_t first, int64_t i,
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

/* Element i of two blocks is the first that differs. */
static int refuse_difference(const merging *r, const merge_job *j, int input, int64_t first,
                             int64_t i, const void *like, const void *other, kv_err *e)
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
    return kv_err_hint(e, "keys of integers must be equal; --keep-first takes those of %.120s, "
                          "--exclude leaves keys out", checkpoint_name(merge_first(r->m))),
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
    tensor_type t = checkpoint_at(tensor_reader_of(p->readers[input]), j->at[input])->type;
    return tensor_read(p->readers[input], data, j->at[input], tensor_type_bytes(t, first),
                       tensor_type_bytes(t, n), e);
}

/* n elements of a key that must be equal in all inputs. */
static int equal_block(const merging *r, const merge_job *j, int like, const walk_piece *p,
                       int64_t first, int64_t n, char *to, kv_err *e)
{
    const void *data, *other;
    int64_t width = tensor_type_bytes(j->type, 1);
    int rc = read_block(j, like, p, first, n, &data, e);
    for (int i = 0; i < r->ninputs && !rc; i++) {
        if (i == like || j->at[i] < 0 || (rc = read_block(j, i, p, first, n, &other, e)))
            continue;
        if (memcmp(data, other, (size_t)(n * width)) == 0)
            continue;
        const char *a = data, *b = other;
        int64_t at = 0;
        while (memcmp(a + at * width, b + at * width, (size_t)width) == 0)
            at++;
        return refuse_difference(r, j, i, first, at, data, other, e);
    }
    if (!rc)
        memcpy(to, data, (size_t)(n * width));
    return rc;
}

static int copy_block(const merging *r, const merge_job *j, int like, const walk_piece *p,
                      int64_t first, int64_t n, char *to, kv_err *e)
{
    const void *data;
    losses *lost = r->m->lost;
    tensor_loss loss = {.first = -1};
    int rc = read_block(j, like, p, first, n, &data, e);
    int64_t bad = rc ? -1
                     : tensor_convert_counting(to, j->type, data, j->like->type, n,
                                                 lost ? &loss : NULL);
    return rc ? rc : end_losses(r, j, first, bad, &loss, j->like->type, data, e);
}

/* A piece of a key that no rule is for. */
static int plain_piece(const merging *r, merge_worker *w, const merge_job *j, const walk_piece *p,
                       kv_err *e)
{
    int like = r->m->base ? r->m->nmodels : 0, rc = KV_OK;
    for (int64_t at = 0; at < p->n && !rc; at += MERGE_BLOCK) {
        int64_t n = p->n - at < MERGE_BLOCK ? p->n - at : MERGE_BLOCK;
        char *to = w->out + tensor_type_bytes(j->type, at);
        rc = j->kind == MERGE_JOB_EQUAL ? equal_block(r, j, like, p, p->first + at, n, to, e)
                                        : copy_block(r, j, like, p, p->first + at, n, to, e);
    }
    return rc ? rc : put_piece(r, j, p, w->out, e);
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
        else if (t->fold >= PLAN_FOLDS && !j->selected[t->number])
            merge_select_chunk(j->select[t->number], w->chunk, w->pool_worker, terms, w->n);
    }
}

/* Rounds n numbers, the elements from `first` on of the key, to its type. */
static int encode(const merging *r, const merge_job *j, void *to, const void *numbers,
                  int64_t first, int64_t n, kv_err *e)
{
    tensor_loss loss = {.first = -1};
    tensor_type from = j->wide ? TENSOR_F64 : TENSOR_F32;
    int64_t bad = tensor_convert_counting(to, j->type, numbers, from, n,
                                          r->m->lost ? &loss : NULL);
    return end_losses(r, j, first, bad, &loss, from, numbers, e);
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

/* The elements of a piece, chunk by chunk. */
static int rule_chunks(const merging *r, merge_worker *w, const merge_job *j, const walk_piece *p,
                       bool stores, double *sums, kv_err *e)
{
    bool direct = j->type == (j->wide ? TENSOR_F64 : TENSOR_F32);
    int rc = merge_worker_piece(w, j, p, e);
    int64_t chunk = p->number * j->chunks;
    for (int64_t at = 0; at < p->n && !rc; at += MERGE_CHUNK, chunk++) {
        int64_t n = p->n - at < MERGE_CHUNK ? p->n - at : MERGE_CHUNK;
        merge_worker_chunk(w, p->first + at, n, chunk);
        void *to = stores && direct ? w->out + at * j->width : NULL;
        rc = merge_worker_run(w, j->pass, to, e);
        bool again = false;
        if (!rc && stores)
            rc = check_chunk(r, w, j, to ? to : w->merged, &again, e);
        if (!rc && stores && !direct && !again)
            rc = encode(r, j, w->out + tensor_type_bytes(j->type, at), w->merged, w->first, n, e);
        if (!rc)
            reduce_chunk(w, j, sums);
    }
    return rc;
}

static int rule_piece(const merging *r, merge_worker *w, const merge_job *j, const walk_piece *p,
                      kv_err *e)
{
    const plan_pass *pass = &j->plan->plan->pass[j->pass];
    double sums[PLAN_MAX_NUMBERS];
    bool stores = merge_job_stores(j, j->pass) && !j->again;
    for (int i = 0; i < pass->nsums; i++)
        sums[i] = pass->sum[i].fold < PLAN_FOLDS ? kernel_fold_begin(pass->sum[i].fold) : 0;
    int rc = rule_chunks(r, w, j, p, stores, sums, e);
    if (!rc && stores)
        rc = put_piece(r, j, p, w->out, e);
    if (!rc && !j->again && pass->nsums > 0)
        memcpy(j->results + p->number * pass->nsums, sums, (size_t)pass->nsums * sizeof *sums);
    return rc;
}

int merge_piece_handle(void *arg, const walk_piece *p, int worker, kv_err *e)
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
