/* Jobs by the set of devices that they are for, a set being the bits of its devices. */
#include "core/call_together.h"

#include "array/mirror.h"
#include "base/mem.h"

struct together_list {
    uint64_t set;
    gpu_group_job *jobs;
    int64_t n, cap;
};

static uint64_t bit_of(int id)
{
    return (uint64_t)1 << id;
}

/* How many devices of a set come before one. */
static int index_in(uint64_t set, int id)
{
    return __builtin_popcountll(set & (bit_of(id) - 1));
}

static together_list *find_list(together *t, uint64_t set, kv_err *e)
{
    for (int64_t i = 0; i < t->n; i++)
        if (t->lists[i].set == set)
            return &t->lists[i];
    if (mem_grow(&t->lists, &t->cap, t->n + 1, sizeof *t->lists, e))
        return NULL;
    t->lists[t->n] = (together_list){.set = set};
    return &t->lists[t->n++];
}

/* A job for a set, whose places are for the caller to fill. */
static int add_job(together *t, uint64_t set, const gpu_group_job *as, void ***places, kv_err *e)
{
    *places = arena_alloc(&t->room.memory, (size_t)__builtin_popcountll(set) * sizeof **places, e);
    together_list *l = *places ? find_list(t, set, e) : NULL;
    int rc = l ? mem_grow(&l->jobs, &l->cap, l->n + 1, sizeof *l->jobs, e) : KV_E_MEMORY;
    if (rc)
        return rc;
    l->jobs[l->n] = *as;
    l->jobs[l->n++].places = *places;
    return KV_OK;
}

/* ---- Sums ---- */

/* Where a sum begins: at its key, or when none of the values lies there, at the first one. */
static int place_sum(together *t, gpu_group_job *job, uint64_t set, int first, int id, void *dst,
                     const void **out, kv_err *e)
{
    int64_t bytes = job->n * kv_dtype_bytes(job->dtype);
    bool near = set & bit_of(id);
    int rc = dst ? KV_OK : gpu_list_block_new(&t->room, id, bytes, &dst, e);
    *out = job->dst = dst;
    job->root = index_in(set, near ? id : first);
    if (rc || near)
        return rc;
    rc = gpu_list_block_new(&t->room, first, bytes, &job->dst, e);
    if (rc || (rc = mem_grow(&t->moves, &t->moves_cap, t->nmoves + 1, sizeof *t->moves, e)))
        return rc;
    t->moves[t->nmoves++] = (struct together_move){id, first, dst, job->dst, bytes};
    return KV_OK;
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

static int run_list(const together *t, const together_list *l, bool copies, kv_err *e)
{
    int ids[GPU_MOST], n = 0;
    for (int id = 0; id < GPU_MOST; id++)
        if (l->set & bit_of(id))
            ids[n++] = id;
    return copies ? t->room.gpu->group_copy(ids, n, l->jobs, l->n, e)
                  : t->room.gpu->group_sum(ids, n, l->jobs, l->n, e);
}

int together_run(together *t, bool copies, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < t->n && !rc; i++)
        rc = run_list(t, &t->lists[i], copies, e);
    for (int64_t i = 0; i < t->nmoves && !rc; i++) {
        const struct together_move *m = &t->moves[i];
        rc = t->room.gpu->copy(m->to, m->dst, m->from, m->src, m->bytes, e);
    }
    return rc;
}

void together_release(together *t)
{
    for (int64_t i = 0; i < t->n; i++)
        mem_free(t->lists[i].jobs);
    mem_free(t->lists);
    mem_free(t->moves);
    gpu_list_release(&t->room);
    *t = (together){0};
}
