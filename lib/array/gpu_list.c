/* Lists of jobs: they are sorted by device when they are run. */
#include "array/gpu_list.h"

int gpu_list_block_new(gpu_list *l, int id, int64_t bytes, void **out, kv_err *e)
{
    int rc = mem_grow(&l->blocks, &l->blocks_cap, l->nblocks + 1, sizeof *l->blocks, e);
    if (rc || (rc = l->gpu->alloc(id, bytes > 0 ? bytes : 1, out, e)))
        return rc;
    l->blocks[l->nblocks++] = (gpu_list_block){id, *out};
    return KV_OK;
}

int gpu_list_add(gpu_list *l, int id, const gpu_job *job, kv_err *e)
{
    int rc = mem_grow(&l->items, &l->cap, l->n + 1, sizeof *l->items, e);
    if (!rc)
        l->items[l->n++] = (gpu_list_item){id, *job};
    return rc;
}

int gpu_list_run(gpu_list *l, kv_err *e)
{
    gpu_job *jobs = mem_alloc(l->n > 0 ? l->n : 1, sizeof *jobs, e);
    int rc = jobs ? KV_OK : KV_E_MEMORY;
    for (int id = 0; l->n > 0 && id < l->gpu->count && !rc; id++) {
        int64_t n = 0;
        for (int64_t i = 0; i < l->n; i++)
            if (l->items[i].id == id)
                jobs[n++] = l->items[i].job;
        if (n > 0)
            rc = l->gpu->run(id, l->work, jobs, n, e);
    }
    mem_free(jobs);
    l->n = 0;
    return rc;
}

void gpu_list_release(gpu_list *l)
{
    for (int64_t i = 0; i < l->nblocks; i++)
        l->gpu->free(l->blocks[i].id, l->blocks[i].block);
    mem_free(l->items);
    mem_free(l->blocks);
    arena_release(&l->memory);
    *l = (gpu_list){.gpu = l->gpu, .work = l->work};
}
