/* Lists of rows. */
#include "array/sparse_gpu.h"

#include <string.h>

#include "array/mirror.h"
#include "array/row_ids.h"
#include "array/sparse.h"

static int64_t elements(const kv_array *a)
{
    return a->nrows * sparse_row(a);
}

static int begin(gpu_list *l, gpu_work work, kv_err *e)
{
    *l = (gpu_list){.gpu = gpu_find(e), .work = work};
    return l->gpu ? KV_OK : KV_E_UNSUPPORTED;
}

/* A job that converts n elements at src, or copies them. */
static int add_convert(gpu_list *l, int id, void *dst, kv_dtype to, const void *src, kv_dtype from,
                       int64_t n, kv_err *e)
{
    const void **list = arena_alloc(&l->memory, sizeof *list, e);
    if (!list)
        return KV_E_MEMORY;
    *list = src;
    gpu_job job = {.dst = dst, .n = n, .src = list, .nsrc = 1, .to = to, .from = from};
    return gpu_list_add(l, id, &job, e);
}

/* ---- Sums ---- */

int sparse_sums_begin(sparse_sums *s, kv_err *e)
{
    *s = (sparse_sums){0};
    int rc = begin(&s->converts, GPU_CONVERT, e);
    return rc ? rc : begin(&s->sums, GPU_SUM_ROWS, e);
}

/* Where the elements of a value are on the device, or will be before the sums are made. */
static int place_value(sparse_sums *s, const kv_array *a, int id, kv_dtype dtype, const void **out,
                       kv_err *e)
{
    void *block, *made;
    int64_t n = elements(a);
    kv_dtype own = (kv_dtype)a->dtype;
    int rc;
    if (mirror_gpu(a) == id) {
        rc = mirror_device(a, MIRROR_READ, &block, e);
    } else {
        rc = gpu_list_block_new(&s->sums, id, n * kv_dtype_bytes(own), &block, e);
        if (!rc)
            rc = mirror_send(a, s->sums.gpu, id, block, e);
    }
    *out = block;
    if (rc || own == dtype)
        return rc;
    rc = gpu_list_block_new(&s->sums, id, n * kv_dtype_bytes(dtype), &made, e);
    *out = made;
    return rc ? rc : add_convert(&s->converts, id, made, dtype, block, own, n, e);
}

/* For each row of the result and each source which of its rows that is, or -1. */
static int64_t *find_sources(gpu_list *l, const int64_t *ids, int64_t count, const dev_rows *src,
                             int64_t n, kv_err *e)
{
    int64_t *at = arena_alloc(&l->memory, (size_t)(count * n + 1) * sizeof *at, e);
    for (int64_t s = 0; s < n && at; s++)
        for (int64_t k = 0, next = 0; k < count; k++) {
            bool holds = next < src[s].n && src[s].ids[next] == ids[k];
            at[k * n + s] = holds ? next++ : -1;
        }
    return at;
}

static int add_sum(sparse_sums *s, kv_array **out, kv_array *const *values, int64_t n,
                   kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    gpu_list *l = &s->sums;
    int64_t *ids = NULL, count = 0, *at = NULL, row = sparse_row(values[0]);
    const void **places = arena_alloc(&l->memory, (size_t)n * sizeof *places, e);
    dev_rows *src = places ? arena_alloc(&l->memory, (size_t)n * sizeof *src, e) : NULL;
    void *block;
    int rc = src ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++) {
        src[i] = (dev_rows){values[i]->rows, values[i]->nrows, NULL};
        rc = place_value(s, values[i], ctx.id, dtype, &places[i], e);
    }
    if (rc || (rc = row_ids_unite(&ids, &count, src, n, values[0]->shape[0], e)) ||
        (rc = sparse_new_rows(out, values[0], dtype, ctx, count, ids, e)))
        return rc;
    at = find_sources(l, (*out)->rows, count, src, n, e);
    if (!at || (rc = mirror_device(*out, MIRROR_WRITE, &block, e)))
        return at ? rc : KV_E_MEMORY;
    gpu_job job = {.dst = block,
                   .n = count * row,
                   .src = places,
                   .nsrc = n,
                   .index = at,
                   .nindex = count * n,
                   .row = row,
                   .to = dtype};
    return gpu_list_add(l, ctx.id, &job, e);
}

/* A single value is copied, its rows of minus zeros too. */
static int add_copy(sparse_sums *s, kv_array **out, const kv_array *value, kv_dtype dtype,
                    kv_ctx ctx, kv_err *e)
{
    const void *src;
    void *block;
    int rc = sparse_new_rows(out, value, dtype, ctx, value->nrows, NULL, e);
    if (rc)
        return rc;
    memcpy((*out)->rows, value->rows, (size_t)value->nrows * sizeof *value->rows);
    rc = mirror_device(*out, MIRROR_WRITE, &block, e);
    if (!rc)
        rc = place_value(s, value, ctx.id, (kv_dtype)value->dtype, &src, e);
    return rc ? rc
              : add_convert(&s->converts, ctx.id, block, dtype, src, (kv_dtype)value->dtype,
                            elements(value), e);
}

int sparse_sums_add(sparse_sums *s, kv_array **out, kv_array *const *values, int64_t n,
                    kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    kv_array *made = NULL;
    int rc = n == 1 ? add_copy(s, &made, values[0], dtype, ctx, e)
                    : add_sum(s, &made, values, n, dtype, ctx, e);
    if (rc)
        kv_array_unref(made);
    else
        *out = made;
    return rc;
}

int sparse_sums_run(sparse_sums *s, kv_err *e)
{
    int rc = gpu_list_run(&s->converts, e);
    return rc ? rc : gpu_list_run(&s->sums, e);
}

void sparse_sums_release(sparse_sums *s)
{
    gpu_list_release(&s->converts);
    gpu_list_release(&s->sums);
}

/* ---- Some rows ---- */

/* Rows in a block of device id, which go to an array elsewhere. */
typedef struct sparse_pick {
    kv_array *to;
    const void *block;
    int id;
} sparse_pick;

int sparse_picks_begin(sparse_picks *p, kv_err *e)
{
    *p = (sparse_picks){0}; /* it is released whatever fails */
    int rc = begin(&p->gathers, GPU_GATHER_ROWS, e);
    return rc ? rc : begin(&p->converts, GPU_CONVERT, e);
}

/* For each of n rows which of those of a it is, or -1. ids: ascending. */
static void find_places(int64_t *at, const kv_array *a, const int64_t *ids, int64_t n)
{
    for (int64_t i = 0, k = 0; i < n; i++) {
        k = row_ids_find(a->rows, k, a->nrows, ids[i]);
        at[i] = k < a->nrows && a->rows[k] == ids[i] ? k : -1;
    }
}

/* A job that all arrays with these rows begin with: it lacks its place. */
static int make_gather(sparse_picks *p, gpu_job *job, const kv_array *like, const kv_array *src,
                       kv_err *e)
{
    void *block;
    int64_t *at = like->rows;
    const void **list = arena_alloc(&p->gathers.memory, sizeof *list, e);
    int rc = list ? mirror_device(src, MIRROR_READ, &block, e) : KV_E_MEMORY;
    if (!rc && !sparse_is_full(src)) {
        at = arena_alloc(&p->gathers.memory, (size_t)like->nrows * sizeof *at + 1, e);
        if (!at)
            return KV_E_MEMORY;
        find_places(at, src, like->rows, like->nrows);
    }
    if (rc)
        return rc;
    *list = block;
    *job = (gpu_job){.n = elements(like),
                     .src = list,
                     .nsrc = 1,
                     .index = at,
                     .nindex = like->nrows,
                     .row = sparse_row(src),
                     .to = (kv_dtype)src->dtype};
    return KV_OK;
}

/* The rows in a block of their own, in the dtype of src. */
static int gather_aside(sparse_picks *p, gpu_job job, int id, void **block, kv_err *e)
{
    int64_t bytes = job.n * kv_dtype_bytes(job.to);
    int rc = gpu_list_block_new(&p->gathers, id, bytes, block, e);
    job.dst = *block;
    return rc ? rc : gpu_list_add(&p->gathers, id, &job, e);
}

/* The rows of `job` into an array on their device. */
static int pick_here(sparse_picks *p, gpu_job job, const kv_array *a, int id, const void *aside,
                     kv_err *e)
{
    int rc = mirror_device(a, MIRROR_WRITE, &job.dst, e);
    if (rc)
        return rc;
    return aside ? add_convert(&p->converts, id, job.dst, (kv_dtype)a->dtype, aside, job.to, job.n,
                               e)
                 : gpu_list_add(&p->gathers, id, &job, e);
}

static int pick_there(sparse_picks *p, kv_array *a, int id, const void *block, kv_err *e)
{
    int rc = mem_grow(&p->out, &p->out_cap, p->nout + 1, sizeof *p->out, e);
    if (!rc)
        p->out[p->nout++] = (sparse_pick){a, block, id};
    return rc;
}

/* What arrays elsewhere are copied from: the rows in the dtype of these arrays. */
static int prepare_block(sparse_picks *p, gpu_job job, kv_dtype dtype, int id, void *aside,
                         void **out, kv_err *e)
{
    *out = aside;
    if (dtype == job.to)
        return KV_OK;
    int rc = gpu_list_block_new(&p->converts, id, job.n * kv_dtype_bytes(dtype), out, e);
    return rc ? rc : add_convert(&p->converts, id, *out, dtype, aside, job.to, job.n, e);
}

int sparse_picks_add(sparse_picks *p, kv_array *const *a, int64_t n, const kv_array *src,
                     kv_err *e)
{
    gpu_job job;
    int id = mirror_gpu(src);
    bool elsewhere = false;
    void *aside = NULL, *block = NULL;
    for (int64_t i = 0; i < n; i++) {
        elsewhere |= mirror_gpu(a[i]) != id;
        if (i > 0)
            memcpy(a[i]->rows, a[0]->rows, (size_t)a[0]->nrows * sizeof *a[0]->rows);
    }
    for (int64_t i = 0; i < n && src->nrows == 0; i++)
        a[i]->nrows = 0;
    if (src->nrows == 0)
        return KV_OK;
    int rc = make_gather(p, &job, a[0], src, e);
    bool converts = a[0]->dtype != src->dtype;
    if (!rc && (elsewhere || converts))
        rc = gather_aside(p, job, id, &aside, e);
    if (!rc && elsewhere)
        rc = prepare_block(p, job, (kv_dtype)a[0]->dtype, id, aside, &block, e);
    for (int64_t i = 0; i < n && !rc; i++)
        rc = mirror_gpu(a[i]) == id ? pick_here(p, job, a[i], id, converts ? aside : NULL, e)
                                    : pick_there(p, a[i], id, block, e);
    return rc;
}

/* Rows to where they are wanted. */
static int copy_out(const gpu_ops *gpu, const sparse_pick *k, kv_err *e)
{
    void *dst;
    int64_t bytes = elements(k->to) * kv_dtype_bytes((kv_dtype)k->to->dtype);
    if (!mirror_has(k->to))
        return gpu->copy_out(k->id, k->to->data, k->block, bytes, e);
    int rc = mirror_device(k->to, MIRROR_WRITE, &dst, e);
    return rc ? rc : gpu->copy(mirror_gpu(k->to), dst, k->id, k->block, bytes, e);
}

int sparse_picks_run(sparse_picks *p, kv_err *e)
{
    int rc = gpu_list_run(&p->gathers, e);
    if (!rc)
        rc = gpu_list_run(&p->converts, e);
    for (int64_t i = 0; i < p->nout && !rc; i++)
        rc = copy_out(p->gathers.gpu, &p->out[i], e);
    return rc;
}

void sparse_picks_release(sparse_picks *p)
{
    gpu_list_release(&p->gathers);
    gpu_list_release(&p->converts);
    mem_free(p->out);
}
