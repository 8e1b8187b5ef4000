/* Each piece is converted into memory of its thread and written from there. */
#include "tensors/tensor_put.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/stop.h"
#include "checkpoint/tensor_codec.h"
#include "engine/pool.h"

enum { PIECE = 1 << 17, WIDEST = 8 }; /* elements: whole bytes of every type; bytes of the widest */

typedef struct putting {
    checkpoint_out *out;
    int64_t i, n;
    tensor_type to, from;
    const char *data;
    char *blocks;            /* one a worker, of PIECE elements; NULL: the data go as they are */
    losses *lost;            /* or NULL */
    _Atomic(int64_t) wrong;  /* the first found so far, or INT64_MAX */
    _Atomic(int64_t) failed; /* the first piece that failed so far, or INT64_MAX */
    pthread_mutex_t lock;    /* of error */
    kv_err error;            /* of that piece */
} putting;

static void note_wrong(putting *p, int64_t at)
{
    int64_t first = atomic_load(&p->wrong);
    while (at < first && !atomic_compare_exchange_weak(&p->wrong, &first, at))
        ;
}

static void note_error(putting *p, int64_t piece, const kv_err *e)
{
    pthread_mutex_lock(&p->lock);
    if (piece < atomic_load(&p->failed)) {
        atomic_store(&p->failed, piece);
        p->error = *e;
    }
    pthread_mutex_unlock(&p->lock);
}

/* Does nothing behind an element that is wrong already, since only the first one is told. */
static void put_piece(void *arg, int64_t piece, int worker)
{
    putting *p = arg;
    kv_err e = {0};
    int64_t at = piece * PIECE, n = p->n - at < PIECE ? p->n - at : PIECE;
    const char *data = p->data + tensor_type_bytes(p->from, at);
    if (atomic_load(&p->wrong) < at || atomic_load(&p->failed) < piece)
        return;
    int rc = stop_check(&e);
    if (!rc && p->blocks) {
        char *block = p->blocks + (int64_t)worker * PIECE * WIDEST;
        tensor_loss loss = {.first = -1};
        int64_t wrong = tensor_convert_counting(block, p->to, data, p->from, n,
                                                p->lost ? &loss : NULL);
        if (wrong < 0 && p->lost && p->lost->strict)
            wrong = loss.first;
        if (wrong >= 0) {
            note_wrong(p, at + wrong);
            return;
        }
        losses_add(p->lost, p->i, &loss);
        data = block;
    }
    if (!rc)
        rc = checkpoint_out_put(p->out, p->i, tensor_type_bytes(p->to, at), data,
                                tensor_type_bytes(p->to, n), &e);
    if (rc)
        note_error(p, piece, &e);
}

int tensor_put(checkpoint_out *out, int64_t i, tensor_type to, const void *data, tensor_type from,
               int64_t n, losses *lost, int64_t *wrong, kv_err *e)
{
    int64_t npieces = n / PIECE + (n % PIECE > 0);
    putting p = {.out = out, .i = i, .n = n, .to = to, .from = from, .data = data, .lost = lost};
    *wrong = -1;
    if (to != from && npieces > 0) {
        int64_t room = npieces == 1 ? n : (int64_t)pool_workers() * PIECE;
        if (!(p.blocks = mem_alloc(room, WIDEST, e)))
            return KV_E_MEMORY;
    }
    atomic_store(&p.wrong, INT64_MAX);
    atomic_store(&p.failed, INT64_MAX);
    pthread_mutex_init(&p.lock, NULL);
    if (npieces == 1)
        put_piece(&p, 0, 0);
    else
        pool_run(npieces, put_piece, &p);
    pthread_mutex_destroy(&p.lock);
    mem_free(p.blocks);
    if (p.error.code) {
        if (e && !e->code)
            *e = p.error;
        return p.error.code;
    }
    *wrong = p.wrong == INT64_MAX ? -1 : atomic_load(&p.wrong);
    return KV_OK;
}
