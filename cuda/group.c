/* Lists of jobs as groups of NCCL, on the streams of the devices. */
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "cuda/gpu_device.h"
#include "cuda/nccl_table.h"

/* The communicators of a set. A thread that holds the locks of all its devices may use them. */
typedef struct clique {
    int n, set[GPU_MOST];
    bool connected;
    nccl_comm *comms[GPU_MOST];
    struct clique *next;
} clique;

/* A part of the plugin's state; a clique stays where it is. */
static struct {
    pthread_mutex_t lock;
    clique *first;
} cliques = {.lock = PTHREAD_MUTEX_INITIALIZER};

int group_find(int *version, kv_err *e)
{
    const nccl *f;
    int rc = nccl_open(&f, e);
    int code = rc ? 0 : f->version(version);
    return rc || !code ? rc : kv_err_set(e, KV_E_UNSUPPORTED, "NCCL does not start: %s",
                                         f->text(code));
}

static int fail(const nccl *f, int code, const char *what, kv_err *e)
{
    return kv_err_set(e, KV_E_IO, "NCCL cannot %s: %s", what, f->text(code));
}

static int connect(const nccl *f, clique *c, kv_err *e)
{
    int rc = c->connected ? 0 : f->connect(c->comms, c->n, c->set);
    c->connected = !rc;
    return rc ? fail(f, rc, "connect the GPUs", e) : KV_OK;
}

static clique *new_clique(const int *set, int n, kv_err *e)
{
    clique *c = mem_zalloc(1, sizeof *c, e);
    if (!c)
        return NULL;
    c->n = n;
    memcpy(c->set, set, (size_t)n * sizeof *set);
    return c;
}

static int find_clique(clique **out, const int *set, int n, kv_err *e)
{
    pthread_mutex_lock(&cliques.lock);
    clique *c = cliques.first;
    while (c && (c->n != n || memcmp(c->set, set, (size_t)n * sizeof *set) != 0))
        c = c->next;
    if (!c && (c = new_clique(set, n, e))) {
        c->next = cliques.first;
        cliques.first = c;
    }
    pthread_mutex_unlock(&cliques.lock);
    *out = c;
    return c ? KV_OK : e && e->code ? e->code : KV_E_MEMORY;
}

/* The arguments of give: a list of jobs and their communicators. */
typedef struct group {
    const nccl *f;
    clique *clique;
    const gpu_group_job *jobs;
    int64_t n;
    bool copies; /* or they are sums */
} group;

/* One job's work of one device. */
static int give_one(const group *g, const gpu_group_job *job, int i, driver_stream *stream)
{
    static const nccl_dtype numbers[KV_DTYPE_END] = {
        [KV_FLOAT32] = NCCL_FLOAT32, [KV_FLOAT64] = NCCL_FLOAT64,   [KV_FLOAT16] = NCCL_FLOAT16,
        [KV_UINT8] = NCCL_UINT8,     [KV_INT32] = NCCL_INT32,       [KV_INT8] = NCCL_INT8,
        [KV_INT64] = NCCL_INT64,     [KV_BFLOAT16] = NCCL_BFLOAT16, [KV_BOOL] = NCCL_UINT8,
    };
    nccl_comm *comm = g->clique->comms[i];
    nccl_dtype dtype = numbers[job->dtype];
    void *place = job->places[i];
    if (g->copies)
        return g->f->broadcast(place, place, (size_t)job->n, dtype, job->root, comm, stream);
    return g->f->reduce(place, job->dst, (size_t)job->n, dtype, NCCL_SUM, job->root, comm, stream);
}

static int give(void *arg, driver_stream *const *streams, kv_err *e)
{
    const group *g = arg;
    TRY(connect(g->f, g->clique, e));
    int code = g->f->begin();
    if (code)
        return fail(g->f, code, "begin", e);
    for (int64_t k = 0; k < g->n && !code; k++)
        for (int i = 0; i < g->clique->n && !code; i++)
            code = give_one(g, &g->jobs[k], i, streams[i]);
    int ended = g->f->end(); /* also after a failure: else all later work would belong to it */
    code = code ? code : ended;
    if (code) {
        /* NCCL may have started work on some devices, which would wait for the others for ever, and
         * a thread that waits for it would hang; after most errors the communicators are of no use
         * in any case. (NCCL documentation, ncclCommAbort) */
        for (int i = 0; i < g->clique->n; i++)
            g->f->stop(g->clique->comms[i]);
        g->clique->connected = false;
    }
    return code ? fail(g->f, code, g->copies ? "copy between GPUs" : "sum on several GPUs", e)
                : KV_OK;
}

static int run(const int *set, int nset, const gpu_group_job *jobs, int64_t n, bool copies,
               kv_err *e)
{
    group g = {.jobs = jobs, .n = n, .copies = copies};
    int rc = nccl_open(&g.f, e);
    if (!rc)
        rc = find_clique(&g.clique, set, nset, e);
    return rc ? rc : device_together(set, nset, give, &g, e);
}

int group_sum(const int *set, int nset, const gpu_group_job *jobs, int64_t n, kv_err *e)
{
    return run(set, nset, jobs, n, false, e);
}

int group_copy(const int *set, int nset, const gpu_group_job *jobs, int64_t n, kv_err *e)
{
    return run(set, nset, jobs, n, true, e);
}
