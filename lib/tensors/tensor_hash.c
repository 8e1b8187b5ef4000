/* A worker hashes one tensor after the other, piece by piece. */
#include "tensors/tensor_hash.h"

#include "base/buf.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "engine/pool.h"
#include "tensors/walk.h"

/* One worker's. */
typedef struct hasher {
    digest *d;
    buf title;
    int64_t tensor; /* whose hash it is at, or -1 */
} hasher;

typedef struct hashing {
    const checkpoint *c;
    const int64_t *numbers;
    hasher *workers;
    int nworkers;
    tensor_hash *hashes;
} hashing;

/* "BF16 [4096, 4096]\n": the same bytes with another shape are another tensor. */
int tensor_hash_begin(digest *d, buf *line, tensor_type type, int ndim, const int64_t *shape,
                      kv_err *e)
{
    buf_clear(line);
    buf_add(line, tensor_type_name(type));
    buf_add(line, " [");
    for (int i = 0; i < ndim; i++)
        buf_printf(line, i ? ", %lld" : "%lld", (long long)shape[i]);
    buf_add(line, "]\n");
    digest_begin(d);
    digest_add(d, buf_text(line), (int64_t)line->len);
    return buf_check(line, e);
}

static int begin(hasher *h, const tensor_info *t, kv_err *e)
{
    return tensor_hash_begin(h->d, &h->title, t->type, t->ndim, t->shape, e);
}

static int hash_piece(void *arg, const walk_piece *p, int worker, kv_err *e)
{
    hashing *job = arg;
    hasher *h = &job->workers[worker];
    const tensor_info *t = checkpoint_at(job->c, job->numbers[p->tensor]);
    if (p->first == 0) {
        h->tensor = p->tensor;
        int rc = begin(h, t, e);
        if (rc)
            return rc;
    }
    kv_assert(h->tensor == p->tensor, "a tensor went to two workers");
    digest_add(h->d, p->data[0], tensor_type_bytes(t->type, p->n));
    return p->first + p->n < t->elements ? KV_OK
                                         : digest_end(h->d, job->hashes[p->tensor].bytes, e);
}

/* A tensor without elements has no pieces. */
static int hash_empty(hashing *job, int64_t n, kv_err *e)
{
    hasher *h = &job->workers[0];
    int rc = KV_OK;
    for (int64_t i = 0; i < n && !rc; i++) {
        const tensor_info *t = checkpoint_at(job->c, job->numbers[i]);
        if (t->elements == 0 && !(rc = begin(h, t, e)))
            rc = digest_end(h->d, job->hashes[i].bytes, e);
    }
    return rc;
}

static int hash_data(hashing *job, int64_t n, checkpoint *c,
                     void (*progress)(void *arg, int64_t done, int64_t all), void *progress_arg,
                     kv_err *e)
{
    return walk_run(&(walk){.inputs = &c,
                            .ninputs = 1,
                            .at = job->numbers,
                            .ntensors = n,
                            .piece = hash_piece,
                            .arg = job,
                            .in_order = true,
                            .progress = progress,
                            .progress_arg = progress_arg},
                    e);
}

int tensor_hash_all(tensor_hash *hashes, checkpoint *c, const int64_t *numbers, int64_t n,
                    digest_kind kind, void (*progress)(void *arg, int64_t done, int64_t all),
                    void *progress_arg, kv_err *e)
{
    hashing job = {c, numbers, NULL, pool_workers(), hashes};
    if (!(job.workers = mem_zalloc(job.nworkers, sizeof *job.workers, e)))
        return KV_E_MEMORY;
    int rc = KV_OK;
    for (int i = 0; i < job.nworkers && !rc; i++)
        rc = digest_new(&job.workers[i].d, kind, e);
    if (!rc && !(rc = hash_empty(&job, n, e)))
        rc = hash_data(&job, n, c, progress, progress_arg, e);
    for (int i = 0; i < job.nworkers; i++) {
        digest_free(job.workers[i].d);
        buf_release(&job.workers[i].title);
    }
    mem_free(job.workers);
    return rc;
}
