/* Jobs by the set of devices that they are for, a set being the bits of its devices. */
#include "core/call_together.h"

#include "array/mirror.h"
#include "base/kv_assert.h"
#include "base/mem.h"

static uint64_t bit_of(int id)
{
    return (uint64_t)1 << id;
}

/* The number of devices of the set that have a lower id. */
static int index_in(uint64_t set, int id)
{
    return __builtin_popcountll(set & (bit_of(id) - 1));
}

/* A job for a set, whose places are for the caller to fill. */
static int add_job(together *t, uint64_t set, const gpu_group_job *as, void ***places, kv_err *e)
{
    *places = arena_alloc(&t->list.memory, (size_t)__builtin_popcountll(set) * sizeof **places, e);
    int rc = *places ? mem_grow(&t->jobs, &t->cap, t->n + 1, sizeof *t->jobs, e) : KV_E_MEMORY;
    if (rc)
        return rc;
    t->jobs[t->n] = (struct together_job){set, *as};
    t->jobs[t->n++].job.places = *places;
    return KV_OK;
}

/* ---- Sums ---- */

/* Chooses the memory of a sum: its key's, or when none of the values is on that device, new memory
 * on the device of the first value. */
static int place_sum(together *t, gpu_group_job *job, uint64_t set, int first, int id, void *dst,
                     const void **out, kv_err *e)
{
    int64_t bytes = job->n * kv_dtype_bytes(job->dtype);
    bool near = set & bit_of(id);
    int rc = dst ? KV_OK : gpu_list_block_new(&t->list, id, bytes, &dst, e);
    *out = job->dst = dst;
    job->root = index_in(set, near ? id : first);
    if (rc || near)
        return rc;
    rc = gpu_list_block_new(&t->list, first, bytes, &job->dst, e);
    return rc ? rc : gpu_list_copy(&t->list, id, dst, first, job->dst, bytes, e);
}

int together_sum(together *t, const call *c, const call_group *g, int id, void *dst,
                 const void **out, kv_err *e)
{
    kv_array *const *values = c->values + g->first;
    gpu_group_job job = {.n = g->target->size, .dtype = (kv_dtype)g->target->dtype};
    void **places;
    uint64_t set = 0;
    for (int64_t i = 0; i < g->n; i++)
        set |= bit_of(mirror_gpu(values[i]));
    kv_assert(__builtin_popcountll(set) == g->n, "%lld values of a key lie on %d GPUs together",
              (long long)g->n, __builtin_popcountll(set));
    t->keys_on |= bit_of(id);
    int rc = place_sum(t, &job, set, mirror_gpu(values[0]), id, dst, out, e);
    if (rc || job.n == 0 || (rc = add_job(t, set, &job, &places, e)))
        return rc;
    for (int64_t i = 0; i < g->n && !rc; i++)
        rc = mirror_device(values[i], MIRROR_READ, &places[index_in(set, mirror_gpu(values[i]))],
                           e);
    return rc;
}

/* ---- Copies ---- */

/* The devices of outs that can take part. */
static uint64_t others(kv_array *const *outs, int64_t n, const kv_array *from, bool *left)
{
    uint64_t set = bit_of(mirror_gpu(from));
    for (int64_t i = 0; i < n; i++) {
        bool can = mirror_has(outs[i]) && outs[i]->dtype == from->dtype &&
                   !(set & bit_of(mirror_gpu(outs[i])));
        left[i] = !can;
        if (can)
            set |= bit_of(mirror_gpu(outs[i]));
    }
    return set & ~bit_of(mirror_gpu(from));
}

int together_copy(together *t, kv_array *const *outs, int64_t n, const kv_array *from, bool *left,
                  kv_err *e)
{
    gpu_group_job job = {.n = from->size, .dtype = (kv_dtype)from->dtype};
    uint64_t set = others(outs, n, from, left);
    void **places;
    int root = mirror_gpu(from);
    if (!set || job.n == 0)
        return KV_OK;
    set |= bit_of(root);
    t->keys_on |= bit_of(root);
    job.root = index_in(set, root);
    int rc = add_job(t, set, &job, &places, e);
    if (!rc)
        rc = mirror_device(from, MIRROR_READ, &places[job.root], e);
    for (int64_t i = 0; i < n && !rc; i++)
        if (!left[i])
            rc = mirror_device(outs[i], MIRROR_WRITE,
                               &places[index_in(set, mirror_gpu(outs[i]))], e);
    return rc;
}

/* ---- All of it ---- */

/* Runs the jobs of job number i's set, and takes them off the list. jobs: room for all of them. */
static int run_set(const together *t, int64_t i, bool copies, gpu_group_job *jobs, kv_err *e)
{
    int ids[GPU_MOST], nids = 0;
    int64_t n = 0;
    uint64_t set = t->jobs[i].set;
    for (int id = 0; id < GPU_MOST; id++)
        if (set & bit_of(id))
            ids[nids++] = id;
    kv_assert(nids > 1, "%d GPU works together with itself", nids);
    for (; i < t->n; i++) {
        if (t->jobs[i].set != set)
            continue;
        jobs[n++] = t->jobs[i].job;
        t->jobs[i].set = 0;
    }
    return copies ? t->list.gpu->group_copy(ids, nids, jobs, n, e)
                  : t->list.gpu->group_sum(ids, nids, jobs, n, e);
}

int together_run(together *t, bool copies, kv_err *e)
{
    gpu_group_job *jobs = t->n > 0 ? mem_alloc(t->n, sizeof *jobs, e) : NULL;
    int rc = jobs || t->n == 0 ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < t->n && !rc; i++)
        if (t->jobs[i].set)
            rc = run_set(t, i, copies, jobs, e);
    mem_free(jobs);
    return rc ? rc : gpu_list_run(&t->list, e);
}

void together_release(together *t)
{
    mem_free(t->jobs);
    gpu_list_release(&t->list);
    *t = (together){0};
}
