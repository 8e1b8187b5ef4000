/* The two places of an array on a GPU, and the copies between them. */
#include "array/mirror.h"

#include <pthread.h>
#include <string.h>

#include "array/sparse.h"
#include "base/kv_assert.h"
#include "base/mem.h"

/* Places of elements, as bits. */
enum { HOST = 1, DEVICE = 2 };

struct array_mirror {
    pthread_mutex_t lock; /* two readers may bring the elements at the same time */
    const gpu_ops *gpu;
    int id;
    bool owns;   /* block */
    int current; /* the places that are; atomic, and changed with the lock alone */
    void *block; /* of the device */
    void *data;  /* of the host */
    int64_t bytes;
};

bool mirror_needed(kv_ctx ctx)
{
    return ctx.device == KV_GPU && ctx.id >= dev_virtual_gpus();
}

int mirror_new(kv_array *a, int64_t bytes, void *block, kv_err *e)
{
    if (!mirror_needed(a->ctx))
        return KV_OK;
    const gpu_ops *gpu = gpu_find(e);
    if (!gpu)
        return KV_E_UNSUPPORTED;
    array_mirror *m = mem_alloc(1, sizeof *m, e);
    if (!m)
        return KV_E_MEMORY;
    *m = (array_mirror){.gpu = gpu,
                        .id = a->ctx.id,
                        .owns = !block,
                        .current = block ? DEVICE : HOST,
                        .block = block,
                        .data = a->data,
                        .bytes = bytes};
    int rc = block ? KV_OK : gpu->alloc(m->id, bytes > 0 ? bytes : 1, &m->block, e);
    if (rc) {
        mem_free(m);
        return rc;
    }
    pthread_mutex_init(&m->lock, NULL);
    a->mirror = m;
    return KV_OK;
}

void mirror_free(array_mirror *m)
{
    if (!m)
        return;
    if (m->owns)
        m->gpu->free(m->id, m->block);
    pthread_mutex_destroy(&m->lock);
    mem_free(m);
}

/* The places that are current; what was brought there before is seen. */
static int current(const array_mirror *m)
{
    int places = __atomic_load_n(&m->current, __ATOMIC_ACQUIRE);
    kv_assert(places, "%lld bytes of an array of gpu(%d) are nowhere", (long long)m->bytes, m->id);
    return places;
}

/* The lock is held. */
static void set_current(array_mirror *m, int places)
{
    __atomic_store_n(&m->current, places, __ATOMIC_RELEASE);
}

/* Returns true if a use finds everything as it needs it, as most uses do: these take no lock. No
 * place becomes stale meanwhile: only writers do that, and a writer has the turn to itself. */
static bool is_ready(const array_mirror *m, int place, mirror_use use)
{
    int places = current(m);
    return use == MIRROR_READ ? (places & place) != 0 : places == place;
}

/* Makes a place current for a use, and unless that is reading, the other one not. */
static int bring(array_mirror *m, int place, mirror_use use, kv_err *e)
{
    int rc = KV_OK;
    pthread_mutex_lock(&m->lock);
    int places = current(m);
    if (!(places & place) && use != MIRROR_WRITE && m->bytes > 0)
        rc = place == HOST ? m->gpu->copy_out(m->id, m->data, m->block, m->bytes, e)
                           : m->gpu->copy_in(m->id, m->block, m->data, m->bytes, e);
    if (!rc)
        set_current(m, use == MIRROR_READ ? places | place : place);
    pthread_mutex_unlock(&m->lock);
    return rc;
}

int mirror_host(const kv_array *a, mirror_use use, kv_err *e)
{
    array_mirror *m = a ? mirror_of(a) : NULL;
    return !m || is_ready(m, HOST, use) ? KV_OK : bring(m, HOST, use, e);
}

int mirror_host_gradually(const kv_array *a, void (*told)(void *arg, int64_t bytes), void *arg,
                          kv_err *e)
{
    enum { BIT = 16 << 20 }; /* a copy is quickest where it is long */
    array_mirror *m = mirror_of(a);
    int64_t bytes = m->bytes;
    int rc = KV_OK;
    pthread_mutex_lock(&m->lock);
    bool away = !(current(m) & HOST);
    for (int64_t at = 0; at < bytes && away && !rc; at += BIT) {
        int64_t n = bytes - at < BIT ? bytes - at : BIT;
        rc = m->gpu->copy_out(m->id, (char *)m->data + at, (const char *)m->block + at, n, e);
        if (!rc && at + n < bytes)
            told(arg, at + n);
    }
    if (!rc)
        set_current(m, current(m) | HOST);
    pthread_mutex_unlock(&m->lock);
    if (!rc)
        told(arg, bytes); /* from now on a may belong to another thread */
    return rc;
}

int mirror_device(const kv_array *a, mirror_use use, void **block, kv_err *e)
{
    array_mirror *m = mirror_of(a);
    TRY(is_ready(m, DEVICE, use) ? KV_OK : bring(m, DEVICE, use, e));
    *block = m->block;
    return KV_OK;
}

void mirror_wait(const kv_array *a)
{
    const array_mirror *m = mirror_of(a);
    kv_err unused = {0};
    if (m)
        m->gpu->wait(m->id, &unused); /* a device that fails works on nothing */
}

int mirror_zero(const kv_array *a, kv_err *e)
{
    void *block;
    int rc = mirror_device(a, MIRROR_WRITE, &block, e);
    const array_mirror *m = mirror_of(a);
    return rc || m->bytes == 0 ? rc : m->gpu->zero(m->id, block, m->bytes, e);
}

bool mirror_is_there(const kv_array *a)
{
    const array_mirror *m = mirror_of(a);
    return m && (current(m) & DEVICE) != 0;
}

/* Returns true if the elements are on the device and not in host memory. */
static bool is_away(const array_mirror *m)
{
    return current(m) == DEVICE;
}

int mirror_send(const kv_array *a, const gpu_ops *gpu, int id, void *block, kv_err *e)
{
    array_mirror *m = mirror_of(a);
    void *here;
    int64_t bytes = sparse_held(a) * kv_dtype_bytes((kv_dtype)a->dtype);
    bool away = m && (m->id == id || is_away(m));
    TRY(away ? mirror_device(a, MIRROR_READ, &here, e) : KV_OK);
    if (bytes == 0)
        return KV_OK;
    return away ? gpu->copy(id, block, m->id, here, bytes, e)
                : gpu->copy_in(id, block, a->data, bytes, e);
}

bool mirror_can_copy(const kv_array *dst, const kv_array *src)
{
    const array_mirror *to = mirror_of(dst), *from = mirror_of(src);
    bool alike = sparse_is_full(dst) == sparse_is_full(src);
    bool same = dst->dtype == src->dtype && dst->dtype != KV_BOOL;
    return alike && (to || from) && (same || (to && from && to->id == from->id));
}

int mirror_copy(const kv_array *dst, const kv_array *src, kv_err *e)
{
    array_mirror *to = mirror_of(dst), *from = mirror_of(src);
    void *there = NULL, *here = NULL;
    kv_assert(sparse_held(dst) == sparse_held(src), "%lld elements are copied to a place for %lld",
              (long long)sparse_held(src), (long long)sparse_held(dst));
    int64_t bytes = sparse_held(src) * kv_dtype_bytes((kv_dtype)src->dtype);
    bool near = to && from && to->id == from->id, away = from && (near || is_away(from));
    TRY(away ? mirror_device(src, MIRROR_READ, &here, e) : KV_OK);
    TRY(to ? mirror_device(dst, MIRROR_WRITE, &there, e) : KV_OK);
    if (bytes == 0)
        return KV_OK;
    if (near) {
        const void *data = here;
        gpu_job job = {.dst = there,
                       .n = sparse_held(src),
                       .src = &data,
                       .nsrc = 1,
                       .to = (kv_dtype)dst->dtype,
                       .from = (kv_dtype)src->dtype};
        return to->gpu->run(to->id, GPU_CONVERT, &job, 1, e);
    }
    if (to)
        return mirror_send(src, to->gpu, to->id, there, e);
    if (away)
        return from->gpu->copy_out(from->id, dst->data, here, bytes, e);
    memcpy(dst->data, src->data, (size_t)bytes);
    return KV_OK;
}
