/* Launches stand in the order in which they run. */
#include "array/gpu_list.h"

#include <string.h>

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
    int rc = mem_grow(&l->blocks, &l->blocks_cap, l->nblocks + 1, sizeof *l->blocks, e);
    if (rc || (rc = l->gpu->alloc(id, bytes > 0 ? bytes : 1, out, e)))
        return rc;
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
    int rc = mem_grow(&l->copies, &l->copies_cap, l->ncopies + 1, sizeof *l->copies, e);
    if (!rc)
        l->copies[l->ncopies++] = (list_copy){to, from, dst, src, bytes};
    return rc;
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
