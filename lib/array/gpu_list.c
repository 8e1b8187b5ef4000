/* Launches stand in the order in which they run. */
#include "array/gpu_list.h"

#include <string.h>

#include "array/mirror.h"
#include "array/sparse.h"
#include "base/kv_assert.h"

typedef struct list_launch {
    gpu_launch as;
    gpu_job *jobs;
    int64_t n, cap;
} list_launch;

typedef struct list_copy {
    int to, from;
    void *dst;
    const void *src;
    int64_t bytes;
} list_copy;

typedef struct list_block {
    int id;
    void *block;
} list_block;

int gpu_list_begin(gpu_list *l, kv_err *e)
{
    *l = (gpu_list){.gpu = gpu_find(e)};
    return l->gpu ? KV_OK : KV_E_UNSUPPORTED;
}

int gpu_list_block_new(gpu_list *l, int id, int64_t bytes, void **out, kv_err *e)
{
    TRY(mem_grow(&l->blocks, &l->blocks_cap, l->nblocks + 1, sizeof *l->blocks, e));
    TRY(l->gpu->alloc(id, bytes > 0 ? bytes : 1, out, e));
    l->blocks[l->nblocks++] = (list_block){id, *out};
    return KV_OK;
}

static bool is_same(const gpu_launch *a, const gpu_launch *b)
{
    return a->stage == b->stage && a->id == b->id && a->work == b->work && a->rule == b->rule;
}

/* The launch that a job belongs to. A new one goes behind the others of its stage. */
static list_launch *find_launch(gpu_list *l, const gpu_launch *as, kv_err *e)
{
    int64_t end = l->n;
    if (l->latest < end && is_same(&l->launches[l->latest].as, as))
        return &l->launches[l->latest];
    while (end > 0 && l->launches[end - 1].as.stage > as->stage)
        end--;
    for (int64_t i = end - 1; i >= 0 && l->launches[i].as.stage == as->stage; i--)
        if (is_same(&l->launches[i].as, as)) {
            l->latest = i;
            return &l->launches[i];
        }
    if (!kv_assert(as->id >= 0 && as->id < l->gpu->count, "a job for gpu(%d) of %d", as->id,
                   l->gpu->count))
        return NULL;
    if (mem_grow(&l->launches, &l->cap, l->n + 1, sizeof *l->launches, e))
        return NULL;
    list_launch *made = &l->launches[end];
    memmove(made + 1, made, (size_t)(l->n++ - end) * sizeof *made);
    *made = (list_launch){.as = *as};
    l->latest = end;
    return made;
}

int gpu_list_add(gpu_list *l, const gpu_launch *as, const gpu_job *job, kv_err *e)
{
    list_launch *launch = find_launch(l, as, e);
    if (!launch || (launch->n == launch->cap &&
                    mem_grow(&launch->jobs, &launch->cap, launch->n + 1, sizeof *launch->jobs, e)))
        return KV_E_MEMORY;
    launch->jobs[launch->n++] = *job;
    return KV_OK;
}

int gpu_list_convert(gpu_list *l, int stage, int id, void *dst, kv_dtype to, const void *src,
                     kv_dtype from, int64_t n, kv_err *e)
{
    gpu_launch as = {.stage = stage, .id = id, .work = GPU_CONVERT};
    const void **list = arena_alloc(&l->memory, sizeof *list, e);
    if (!list)
        return KV_E_MEMORY;
    *list = src;
    gpu_job job = {.dst = dst, .n = n, .src = list, .nsrc = 1, .to = to, .from = from};
    return gpu_list_add(l, &as, &job, e);
}

int gpu_list_copy(gpu_list *l, int to, void *dst, int from, const void *src, int64_t bytes,
                  kv_err *e)
{
    TRY(mem_grow(&l->copies, &l->copies_cap, l->ncopies + 1, sizeof *l->copies, e));
    l->copies[l->ncopies++] = (list_copy){to, from, dst, src, bytes};
    return KV_OK;
}

uint64_t gpu_list_devices(const gpu_list *l)
{
    uint64_t devices = 0;
    for (int64_t i = 0; i < l->n; i++)
        devices |= (uint64_t)1 << l->launches[i].as.id;
    return devices;
}

static void clear(gpu_list *l)
{
    for (int64_t i = 0; i < l->n; i++)
        mem_free(l->launches[i].jobs);
    l->n = 0;
    l->ncopies = 0;
}

int gpu_list_run(gpu_list *l, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < l->n && !rc; i++) {
        const list_launch *launch = &l->launches[i];
        int id = launch->as.id;
        rc = launch->as.rule ? l->gpu->apply(id, launch->as.rule, launch->jobs, launch->n, e)
                           : l->gpu->run(id, launch->as.work, launch->jobs, launch->n, e);
    }
    for (int64_t i = 0; i < l->ncopies && !rc; i++) {
        const list_copy *c = &l->copies[i];
        rc = c->to < 0 ? l->gpu->copy_out(c->from, c->dst, c->src, c->bytes, e)
                       : l->gpu->copy(c->to, c->dst, c->from, c->src, c->bytes, e);
    }
    clear(l);
    return rc;
}

void gpu_list_release(gpu_list *l)
{
    clear(l);
    for (int64_t i = 0; i < l->nblocks; i++)
        l->gpu->free(l->blocks[i].id, l->blocks[i].block);
    mem_free(l->launches);
    mem_free(l->copies);
    mem_free(l->blocks);
    arena_release(&l->memory);
    *l = (gpu_list){.gpu = l->gpu};
}

/* From rows to jobs. */

/* The stages of a list: a sum needs converted values, a conversion the rows that were gathered. */
enum { FIRST, SECOND };

/* ---- Sums ---- */

/* Finds the elements of a value on the device, or adds the copy that brings them before the
 * sums. */
static int place_value(gpu_list *l, const kv_array *a, int id, kv_dtype dtype, const void **out,
                       kv_err *e)
{
    void *block, *made;
    int64_t n = sparse_held(a);
    kv_dtype own = (kv_dtype)a->dtype;
    if (mirror_gpu(a) == id) {
        TRY(mirror_device(a, MIRROR_READ, &block, e));
    } else {
        TRY(gpu_list_block_new(l, id, n * kv_dtype_bytes(own), &block, e));
        TRY(mirror_send(a, l->gpu, id, block, e));
    }
    *out = block;
    if (own == dtype)
        return KV_OK;
    TRY(gpu_list_block_new(l, id, n * kv_dtype_bytes(dtype), &made, e));
    *out = made;
    return gpu_list_convert(l, FIRST, id, made, dtype, block, own, n, e);
}

static int add_sum(gpu_list *l, kv_array **out, kv_array *const *values, int64_t n,
                   kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    gpu_launch as = {.stage = SECOND, .id = ctx.id, .work = GPU_SUM_ROWS};
    int64_t *ids = NULL, count = 0, *at = NULL, row = sparse_row(values[0]);
    const void **places = arena_alloc(&l->memory, (size_t)n * sizeof *places, e);
    sparse_rows *src = places ? arena_alloc(&l->memory, (size_t)n * sizeof *src, e) : NULL;
    void *block;
    int rc = src ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++) {
        src[i] = (sparse_rows){values[i]->rows, values[i]->nrows, NULL};
        rc = place_value(l, values[i], ctx.id, dtype, &places[i], e);
    }
    if (rc || (rc = row_ids_unite(&ids, &count, src, n, array_shape(values[0])[0], e)) ||
        (rc = sparse_new_rows(out, values[0], dtype, ctx, count, ids, e)))
        return rc;
    /* For each row of the result and each source which of its rows that is, or -1. */
    at = arena_alloc(&l->memory, (size_t)(count * n + 1) * sizeof *at, e);
    for (int64_t s = 0; s < n && at; s++)
        for (int64_t k = 0, next = 0; k < count; k++) {
            bool holds = next < src[s].n && src[s].ids[next] == (*out)->rows[k];
            at[k * n + s] = holds ? next++ : -1;
        }
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
    return gpu_list_add(l, &as, &job, e);
}

/* A single value is copied, its rows of minus zeros too. */
static int add_copy(gpu_list *l, kv_array **out, const kv_array *value, kv_dtype dtype, kv_ctx ctx,
                    kv_err *e)
{
    kv_dtype own = (kv_dtype)value->dtype;
    const void *src;
    void *block;
    TRY(sparse_new_rows(out, value, dtype, ctx, value->nrows, NULL, e));
    memcpy((*out)->rows, value->rows, (size_t)value->nrows * sizeof *value->rows);
    TRY(mirror_device(*out, MIRROR_WRITE, &block, e));
    TRY(place_value(l, value, ctx.id, own, &src, e));
    return gpu_list_convert(l, FIRST, ctx.id, block, dtype, src, own, sparse_held(value), e);
}

int sparse_gpu_sum(gpu_list *l, kv_array **out, kv_array *const *values, int64_t n, kv_dtype dtype,
                   kv_ctx ctx, kv_err *e)
{
    kv_array *made = NULL;
    int rc = n == 1 ? add_copy(l, &made, values[0], dtype, ctx, e)
                    : add_sum(l, &made, values, n, dtype, ctx, e);
    return array_give(rc, out, made);
}

/* ---- Some rows ---- */

/* A job that all arrays with these rows begin with: it lacks its place. */
static int make_gather(gpu_list *l, gpu_job *job, const kv_array *like, const kv_array *src,
                       kv_err *e)
{
    void *block;
    int64_t *at = like->rows;
    const void **list = arena_alloc(&l->memory, sizeof *list, e);
    int rc = list ? mirror_device(src, MIRROR_READ, &block, e) : KV_E_MEMORY;
    if (!rc && !sparse_is_full(src)) {
        at = arena_alloc(&l->memory, (size_t)like->nrows * sizeof *at + 1, e);
        if (!at)
            return KV_E_MEMORY;
        /* For each row which of those of src it is, or -1. */
        for (int64_t i = 0, k = 0; i < like->nrows; i++) {
            k = row_ids_find(src->rows, k, src->nrows, like->rows[i]);
            at[i] = k < src->nrows && src->rows[k] == like->rows[i] ? k : -1;
        }
    }
    if (rc)
        return rc;
    *list = block;
    *job = (gpu_job){.n = sparse_held(like),
                     .src = list,
                     .nsrc = 1,
                     .index = at,
                     .nindex = like->nrows,
                     .row = sparse_row(src),
                     .to = (kv_dtype)src->dtype};
    return KV_OK;
}

/* The gathered rows as dtype in a block of the device. */
static int convert_rows(gpu_list *l, const gpu_job *gathered, int id, kv_dtype dtype, void **out,
                        kv_err *e)
{
    int rc = gpu_list_block_new(l, id, gathered->n * kv_dtype_bytes(dtype), out, e);
    return rc ? rc
              : gpu_list_convert(l, SECOND, id, *out, dtype, gathered->dst, gathered->to,
                                 gathered->n, e);
}

/* Fills an array on the device of the rows: from where they were gathered, or with a job of its own
 * where no dtype changes. */
static int fill_here(gpu_list *l, const gpu_launch *gather, gpu_job gathered, const kv_array *a,
                     kv_err *e)
{
    void *dst;
    TRY(mirror_device(a, MIRROR_WRITE, &dst, e));
    if (a->dtype != gathered.to)
        return gpu_list_convert(l, SECOND, gather->id, dst, (kv_dtype)a->dtype, gathered.dst,
                                gathered.to, gathered.n, e);
    gathered.dst = dst;
    return gpu_list_add(l, gather, &gathered, e);
}

/* Copies rows in a block of device id, which have the dtype of a, to a, which is elsewhere. */
static int fill_there(gpu_list *l, const kv_array *a, int id, const void *block, kv_err *e)
{
    void *dst = a->data;
    int64_t bytes = sparse_held(a) * kv_dtype_bytes((kv_dtype)a->dtype);
    int rc = mirror_has(a) ? mirror_device(a, MIRROR_WRITE, &dst, e) : KV_OK;
    return rc ? rc : gpu_list_copy(l, mirror_gpu(a), dst, id, block, bytes, e);
}

int sparse_gpu_retain(gpu_list *l, kv_array *const *a, int64_t n, const kv_array *src, kv_err *e)
{
    gpu_launch gather = {.stage = FIRST, .id = mirror_gpu(src), .work = GPU_GATHER_ROWS};
    gpu_job job;
    kv_dtype dtype = (kv_dtype)a[0]->dtype;
    bool elsewhere = false, converts = a[0]->dtype != src->dtype;
    int id = gather.id;
    for (int64_t i = 0; i < n; i++) {
        elsewhere |= mirror_gpu(a[i]) != id;
        if (i > 0)
            memcpy(a[i]->rows, a[0]->rows, (size_t)a[0]->nrows * sizeof *a[0]->rows);
    }
    for (int64_t i = 0; i < n && array_nrows(src) == 0; i++)
        a[i]->nrows = 0;
    if (array_nrows(src) == 0)
        return KV_OK;
    TRY(make_gather(l, &job, a[0], src, e));
    if (elsewhere || converts) {
        TRY(gpu_list_block_new(l, id, job.n * kv_dtype_bytes(job.to), &job.dst, e));
        TRY(gpu_list_add(l, &gather, &job, e));
    }
    void *block = job.dst;
    TRY(elsewhere && converts ? convert_rows(l, &job, id, dtype, &block, e) : KV_OK);
    for (int64_t i = 0; i < n; i++)
        TRY(mirror_gpu(a[i]) == id ? fill_here(l, &gather, job, a[i], e)
                                   : fill_there(l, a[i], id, block, e));
    return KV_OK;
}
