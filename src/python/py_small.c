/* Copies of small values. */
#include "py_small.h"

#include <string.h>

#include "array/device.h"
#include "base/mem.h"

enum {
    MOST_KEPT = 1 << 18, /* arrays: about 64 MB */
    AHEAD = 12,
    BLOCK_BYTES = 1 << 16,
};

typedef struct head {
    uint8_t dtype, ndim;
    uint16_t unused;
    uint32_t bytes;
} head;

static size_t rounded(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

bool py_small_pack(py_packed *p, kv_dtype dtype, int ndim, const int64_t *shape, const void *data,
                   size_t bytes)
{
    head h = {.dtype = (uint8_t)dtype, .ndim = (uint8_t)ndim, .bytes = (uint32_t)bytes};
    size_t more = sizeof h + (size_t)ndim * sizeof *shape + rounded(bytes);
    if (p->n + more > p->cap) {
        size_t cap = 2 * p->cap + more;
        char *grown = PyMem_Realloc(p->data, cap);
        if (!grown) {
            PyErr_NoMemory();
            return false;
        }
        p->data = grown;
        p->cap = cap;
    }
    char *at = p->data + p->n;
    memcpy(at, &h, sizeof h);
    memcpy(at + sizeof h, shape, (size_t)ndim * sizeof *shape);
    memcpy(at + sizeof h + (size_t)ndim * sizeof *shape, data, bytes);
    p->n += more;
    return true;
}

bool py_small_reserve(py_small *s, int64_t n)
{
    if (n <= s->cap)
        return true;
    kv_array **grown = PyMem_Realloc(s->arrays, (size_t)n * sizeof *grown);
    if (!grown) {
        PyErr_NoMemory();
        return false;
    }
    s->arrays = grown;
    s->cap = n;
    return true;
}

static bool fits(const kv_array *a, const head *h, const int64_t *shape)
{
    if (!a || kv_array_dtype(a) != (kv_dtype)h->dtype || kv_array_ndim(a) != h->ndim)
        return false;
    for (int i = 0; i < h->ndim; i++)
        if (kv_array_shape(a)[i] != shape[i])
            return false;
    return true;
}

static void give_back(void *block)
{
    kv_array_unref(block);
}

/* Room for the elements of an array in the block, or in a new one: *to is theirs as long as the
 * caller holds the reference to s->block that it gets. */
static int take_room(py_small *s, size_t bytes, void **to, kv_err *e)
{
    if (!s->block || s->used + bytes > BLOCK_BYTES) {
        const int64_t size = BLOCK_BYTES;
        own_array *made = NULL;
        TRY(kv_array_new_raw(&made, KV_UINT8, 1, &size, (kv_ctx){0}, e));
        TRY(kv_array_write(made, &s->begin, e));
        kv_array_unref(s->block);
        s->block = made;
        made = NULL;
        s->used = 0;
    }
    *to = (char *)s->begin + s->used;
    s->used += rounded(bytes);
    kv_array_ref(s->block);
    return KV_OK;
}

static int make(py_small *s, const head *h, const int64_t *shape, kv_array **out, kv_err *e)
{
    void *room;
    TRY(take_room(s, h->bytes, &room, e));
    int rc = kv_array_wrap(out, room, (kv_dtype)h->dtype, h->ndim, shape, (kv_ctx){0}, give_back,
                           s->block, e);
    if (rc)
        kv_array_unref(s->block);
    return rc;
}

static int fill_one(py_small *s, kv_array **a, const head *h, const int64_t *shape, kv_err *e)
{
    void *to;
    if (!fits(*a, h, shape)) {
        kv_array *made;
        TRY(make(s, h, shape, &made, e));
        kv_array_unref(*a);
        *a = made;
    }
    TRY(kv_array_write(*a, &to, e));
    memcpy(to, shape + h->ndim, h->bytes);
    return KV_OK;
}

int py_small_fill(py_small *s, const py_packed *p, kv_array **arrays, int64_t n, kv_err *e)
{
    const char *at = p->data;
    while (s->n < n)
        s->arrays[s->n++] = NULL;
    for (int64_t i = 0; i < n; i++) {
        if (arrays[i])
            continue;
        const head *h = (const head *)at;
        const int64_t *shape = (const int64_t *)(at + sizeof *h);
        if (i + AHEAD < n)
            __builtin_prefetch(s->arrays[i + AHEAD]);
        TRY(fill_one(s, &s->arrays[i], h, shape, e));
        arrays[i] = s->arrays[i];
        at += sizeof *h + (size_t)h->ndim * sizeof *shape + rounded(h->bytes);
    }
    return KV_OK;
}

py_small py_small_take(py_small *from)
{
    py_small s = *from;
    *from = (py_small){0};
    return s;
}

void py_small_release(py_small *s)
{
    for (int64_t i = 0; i < s->n; i++)
        kv_array_unref(s->arrays[i]);
    kv_array_unref(s->block);
    PyMem_Free(s->arrays);
    *s = (py_small){0};
}

void py_small_give(py_small *to, py_small *s)
{
    if (to->arrays || s->n > MOST_KEPT)
        py_small_release(s);
    else
        *to = *s;
}
