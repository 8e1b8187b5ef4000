/* Counted arrays.
 *
 * An array is one block: the header, its shape and, where they are few and in host memory, its own
 * elements. Such a block is a small one (base/mem.h): arrays that are made one after another
 * lie side by side, an array of 16 floats in two cache lines.
 * Else its data is a second block of host memory, or the caller's (wrapped), or another array's (a
 * view), or not there yet (array_fetch). A view keeps a reference to the array that owns the
 * memory, never to another view, and shares its variable, so that operations on either keep their
 * order.
 */
#include "array/device.h"

#include <stdio.h>
#include <string.h>

#include "array/mirror.h"
#include "array/sparse.h"
#include "base/kv_assert.h"
#include "base/mem.h"

/* Elements up to these bytes lie behind their header. */
enum { INSIDE_BYTES = 1024 };

_Static_assert(sizeof(kv_array) + KV_MAX_NDIM * sizeof(int64_t) + MEM_ALIGN + INSIDE_BYTES <=
                   MEM_SMALL_MOST, "an array with its elements inside is one small block");

bool kv_ctx_same(kv_ctx a, kv_ctx b)
{
    return a.device == b.device && a.id == b.id;
}

const char *kv_ctx_text(char out[KV_CTX_TEXT], kv_ctx ctx)
{
    /* The number may be invalid; it is shown within the room there is. */
    unsigned id = (unsigned)ctx.id % 1000000;
    snprintf(out, KV_CTX_TEXT, "%s(%u)", ctx.device == KV_GPU ? "gpu" : "cpu", id);
    return out;
}

const char *kv_shape_text(char *out, int size, int ndim, const int64_t *shape)
{
    /* A cut text ends in "...)", for which the last five bytes are kept. */
    int len = snprintf(out, (size_t)size, "(");
    for (int i = 0; i < ndim; i++) {
        char one[32];
        int n = snprintf(one, sizeof one, "%lld%s", (long long)shape[i],
                         i + 1 < ndim ? ", "
                         : ndim == 1  ? ","
                                      : "");
        if (len + n + 5 > size) {
            len += snprintf(out + len, (size_t)(size - len), "...");
            break;
        }
        memcpy(out + len, one, (size_t)n + 1);
        len += n;
    }
    if (len + 1 < size)
        memcpy(out + len, ")", 2);
    return out;
}

/* The number of elements of a shape whose bytes fit into 63 bits. */
static int shape_size(int64_t *size, kv_dtype dtype, int ndim, const int64_t *shape, kv_err *e)
{
    char text[160];
    if (ndim < 0 || ndim > KV_MAX_NDIM)
        return kv_err_set(e, KV_E_SHAPE, "an array has 0 to %d axes, not %d", KV_MAX_NDIM, ndim);
    if (ndim > 0 && !shape)
        return arg_given(shape, "shape", e);
    int64_t n = 1, bytes = kv_dtype_bytes(dtype);
    bool empty = false, over = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return kv_err_set(e, KV_E_SHAPE, "a shape has no negative sizes, as in %s",
                              kv_shape_text(text, sizeof text, ndim, shape));
        if (shape[i] == 0)
            empty = true;
        else
            over |= __builtin_mul_overflow(n, shape[i], &n);
    }
    over |= __builtin_mul_overflow(n, bytes, &bytes);
    if (over && !empty)
        return kv_err_set(e, KV_E_SHAPE, "shape %s of %s is too large: more than 2^63 bytes",
                          kv_shape_text(text, sizeof text, ndim, shape), kv_dtype_name(dtype));
    *size = empty ? 0 : n;
    return KV_OK;
}

_Static_assert(offsetof(kv_array, mirror) == MEM_ALIGN, "the first fields are one cache line");

/* Bytes of a header and its shape. inside: elements follow, and are aligned. */
static int64_t header_bytes(int ndim, bool inside)
{
    if (ndim <= 1)
        return inside ? MEM_ALIGN : (int64_t)sizeof(kv_array);
    int64_t bytes = (int64_t)(sizeof(kv_array) + (size_t)ndim * sizeof(int64_t));
    return inside ? mem_aligned(bytes) : bytes;
}

/* A header. own: the elements are to be the array's own, and few ones lie behind it: memory and
 * data then say so. */
static int make(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, kv_ctx ctx,
                bool own, kv_err *e)
{
    int64_t size = 0;
    if (kv_dtype_bytes(dtype) == 0)
        return kv_err_set(e, KV_E_DTYPE, "%d is not the number of a dtype", (int)dtype);
    TRY(shape_size(&size, dtype, ndim, shape, e));
    int64_t bytes = size * kv_dtype_bytes(dtype);
    bool small = own && !mirror_needed(ctx) && bytes <= INSIDE_BYTES;
    int64_t header = header_bytes(ndim, small);
    kv_array *a = small ? mem_alloc_small(header + bytes, e) : mem_alloc_data(header, e);
    if (!a)
        return KV_E_MEMORY;
    memset(a, 0, (size_t)header);
    a->holders = 1;
    a->size = size;
    a->dtype = (uint8_t)dtype;
    a->ctx = ctx;
    a->ndim = (uint8_t)ndim;
    if (ndim > 1)
        memcpy(a->axes, shape, (size_t)ndim * sizeof *shape);
    if (small) {
        a->memory = ARRAY_INSIDE;
        a->data = (char *)a + header;
    }
    *out = a;
    return KV_OK;
}

int array_header(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, kv_ctx ctx,
                 kv_err *e)
{
    int rc = ctx_check(ctx, e);
    return rc ? rc : make(out, dtype, ndim, shape, ctx, false, e);
}

int array_alloc(kv_array *a, int64_t bytes, void *block, kv_err *e)
{
    a->data = mem_alloc_data(bytes, e);
    if (!a->data)
        return KV_E_MEMORY;
    int rc = mirror_new(a, bytes, block, e);
    if (rc)
        mem_free_data(a->data);
    return rc;
}

int kv_array_new_raw(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, kv_ctx ctx,
                     kv_err *e)
{
    kv_array *a;
    TRY(arg_given(out, "out", e));
    TRY(ctx_check(ctx, e));
    TRY(make(&a, dtype, ndim, shape, ctx, true, e));
    int rc = KV_OK;
    if (a->memory != ARRAY_INSIDE) {
        a->memory = ARRAY_OWN;
        rc = array_alloc(a, kv_array_bytes(a), NULL, e);
    }
    if (rc)
        mem_free(a);
    else
        *out = a;
    return rc;
}

int array_make(kv_array **out, void **data, kv_dtype dtype, int ndim, const int64_t *shape,
               kv_ctx ctx, kv_err *e)
{
    own_array *made = NULL;
    TRY(kv_array_new_raw(&made, dtype, ndim, shape, ctx, e));
    TRY(kv_array_write(made, data, e));
    return array_hand_out(out, &made);
}

int kv_array_new(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, kv_ctx ctx,
                 kv_err *e)
{
    kv_array *a;
    TRY(arg_given(out, "out", e));
    TRY(kv_array_new_raw(&a, dtype, ndim, shape, ctx, e));
    if (mirror_of(a))
        return array_give(mirror_zero(a, e), out, a);
    memset(a->data, 0, (size_t)kv_array_bytes(a));
    *out = a;
    return KV_OK;
}

int kv_array_wrap(kv_array **out, void *data, kv_dtype dtype, int ndim, const int64_t *shape,
                  kv_ctx ctx, void (*done)(void *arg), void *arg, kv_err *e)
{
    kv_array *a;
    TRY(arg_given(out, "out", e));
    TRY(array_header(&a, dtype, ndim, shape, ctx, e));
    a->memory = ARRAY_WRAPPED;
    a->data = data;
    int rc = KV_OK;
    if (a->size > 0)
        rc = arg_given(data, "data", e);
    /* Memory of a GPU gets a place in host memory beside it. */
    if (rc || (mirror_needed(ctx) && (rc = array_alloc(a, kv_array_bytes(a), data, e)))) {
        mem_free(a);
        return rc;
    }
    a->done = done;
    a->done_arg = arg;
    *out = a;
    return KV_OK;
}

int kv_array_view(kv_array **out, kv_array *src, int ndim, const int64_t *shape, kv_err *e)
{
    kv_array *a;
    char text[160];
    TRY(arg_given(out, "out", e));
    TRY(arg_given(src, "src", e));
    if (src->storage == KV_ROW_SPARSE) {
        kv_err_set(e, KV_E_UNSUPPORTED, "a row_sparse array of shape %s keeps its shape",
                   kv_shape_text(text, sizeof text, src->ndim, array_shape(src)));
        kv_err_hint(e, "a dense one can have another: kv_array_to_dense");
        return KV_E_UNSUPPORTED;
    }
    TRY(make(&a, src->dtype, ndim, shape, src->ctx, false, e));
    if (a->size != src->size) {
        char was[160], now[160];
        mem_free(a);
        return kv_err_set(e, KV_E_SHAPE, "an array of shape %s cannot have the shape %s",
                          kv_shape_text(was, sizeof was, src->ndim, array_shape(src)),
                          kv_shape_text(now, sizeof now, ndim, shape));
    }
    a->memory = ARRAY_VIEW;
    a->data = src->data;
    a->base = kv_array_ref(src->memory == ARRAY_VIEW ? src->base : src);
    kv_assert(a->base->memory != ARRAY_VIEW, "a view of %lld elements is of another view",
              (long long)a->size);
    *out = a;
    return KV_OK;
}

kv_array *kv_array_ref(kv_array *a)
{
    if (a)
        __atomic_fetch_add(&a->holders, 1, __ATOMIC_RELAXED);
    return a;
}

static void release_memory(kv_array *a, int64_t left)
{
    kv_assert(left == 0, "an array of %lld elements is given back by %lld who do not hold it",
              (long long)a->size, (long long)-left);
    if (a->memory == ARRAY_WRAPPED)
        mirror_wait(a);
    if (a->memory == ARRAY_INSIDE)
        return; /* with the header, which has no mirror */
    mirror_free(a->mirror);
    switch ((array_memory)a->memory) {
    case ARRAY_INSIDE:
        break;
    case ARRAY_OWN:
        mem_free_data(a->data);
        mem_free_data(a->rows);
        break;
    case ARRAY_WRAPPED:
        if (a->mirror)
            mem_free_data(a->data);
        if (a->done)
            a->done(a->done_arg);
        break;
    case ARRAY_VIEW:
        kv_array_unref(a->base);
        break;
    case ARRAY_LATER:
        array_source_unref(a->done_arg);
        break;
    }
}

/* The last one out must see what the others wrote, hence release here and acquire there. */
static void let_go(kv_array *a, int64_t holders)
{
    int64_t left = __atomic_sub_fetch(&a->holders, holders, __ATOMIC_ACQ_REL);
    if (left > 0)
        return;
    release_memory(a, left);
    if (a->memory == ARRAY_INSIDE)
        mem_free_small(a);
    else
        mem_free(a);
}

void kv_array_unref(kv_array *a)
{
    if (a)
        let_go(a, 1);
}

void array_hold(kv_array *a)
{
    __atomic_fetch_add(&a->holders, ARRAY_HOLD, __ATOMIC_RELAXED);
}

void array_drop(kv_array *a)
{
    let_go(a, ARRAY_HOLD);
}

void array_source_unref(array_source *s)
{
    if (s && __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) == 0)
        s->release(s);
}

int array_new_later(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, array_source *s,
                    kv_err *e)
{
    kv_array *a;
    TRY(make(&a, dtype, ndim, shape, (kv_ctx){0}, true, e));
    int rc = KV_OK;
    if (a->memory == ARRAY_INSIDE && (rc = s->read(s, a->data, 0, kv_array_bytes(a), e))) {
        kv_array_unref(a);
        return rc;
    }
    if (a->memory != ARRAY_INSIDE) {
        __atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED);
        a->memory = ARRAY_LATER;
        a->done_arg = s;
    }
    *out = a;
    return KV_OK;
}

int array_fetch(kv_array *a, kv_err *e)
{
    array_source *s = array_source_of(a);
    if (!s)
        return KV_OK;
    void *data = mem_alloc_data(kv_array_bytes(a), e);
    if (!data)
        return KV_E_MEMORY;
    int rc = s->read(s, data, 0, kv_array_bytes(a), e);
    if (rc) {
        mem_free_data(data);
        return rc;
    }
    a->data = data;
    a->done_arg = NULL;
    a->memory = ARRAY_OWN;
    array_source_unref(s);
    return KV_OK;
}

void array_swap(kv_array *a, kv_array *b)
{
    if (!kv_assert(a->memory == b->memory && a->dtype == b->dtype && a->size == b->size,
                   "arrays of %lld and %lld elements are exchanged", (long long)a->size,
                   (long long)b->size))
        return;
    if (a->memory == ARRAY_INSIDE) {
        /* Few elements, which lie behind their headers in both arrays, stay there. */
        char kept[INSIDE_BYTES];
        size_t bytes = (size_t)kv_array_bytes(a);
        memcpy(kept, a->data, bytes);
        memcpy(a->data, b->data, bytes);
        memcpy(b->data, kept, bytes);
        return;
    }
    void *data = a->data;
    int64_t *rows = a->rows, nrows = a->nrows;
    array_mirror *mirror = a->mirror;
    a->mirror = b->mirror;
    b->mirror = mirror;
    a->data = b->data;
    a->rows = b->rows;
    a->nrows = b->nrows;
    b->data = data;
    b->rows = rows;
    b->nrows = nrows;
}

kv_dtype kv_array_dtype(const kv_array *a)
{
    return a->dtype;
}

int kv_array_ndim(const kv_array *a)
{
    return a->ndim;
}

const int64_t *kv_array_shape(const kv_array *a)
{
    return array_shape(a);
}

int64_t kv_array_size(const kv_array *a)
{
    return a->size;
}

int64_t kv_array_bytes(const kv_array *a)
{
    if (a->storage == KV_DEFAULT)
        return a->size * kv_dtype_bytes(a->dtype);
    return a->nrows * (sparse_row(a) * kv_dtype_bytes(a->dtype) + (int64_t)sizeof *a->rows);
}

kv_ctx kv_array_ctx(const kv_array *a)
{
    return a->ctx;
}

int64_t kv_array_refs(const kv_array *a)
{
    return __atomic_load_n(&a->holders, __ATOMIC_ACQUIRE) % ARRAY_HOLD;
}

/* read, write and their kin for rows are for one storage each. data: where the result goes. */
static int check_access(const kv_array *a, const void *data, kv_storage storage, kv_err *e)
{
    char text[160];
    int rc = arg_given(a, "a", e);
    if (rc || (rc = arg_given(data, "data", e)) || a->storage == storage)
        return rc;
    kv_shape_text(text, sizeof text, a->ndim, array_shape(a));
    if (storage == KV_ROW_SPARSE)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "an array of shape %s is not row_sparse, it holds all its rows", text);
    kv_err_set(e, KV_E_UNSUPPORTED, "a row_sparse array of shape %s does not hold all its elements",
               text);
    kv_err_hint(e, "a dense one does: kv_array_to_dense");
    return KV_E_UNSUPPORTED;
}

static int check_filled(const kv_array *a, kv_err *e)
{
    if (!kv_assert(a->memory != ARRAY_LATER, "%lld elements are used that nobody has read",
                   (long long)a->size))
        return kv_assert_report(e);
    return a->unfilled
               ? kv_err_set(e, (kv_code)a->unfilled, "what this array waits for did not come")
               : KV_OK;
}

static int read_data(kv_array *a, kv_storage storage, const void **data, kv_err *e)
{
    TRY(check_access(a, data, storage, e));
    engine_wait_read(array_var(a));
    *data = a->data;
    int rc = check_filled(a, e);
    return rc ? rc : mirror_host(a, MIRROR_READ, e);
}

int kv_array_await(kv_array *a, int ms, bool *there, kv_err *e)
{
    TRY(arg_given(a, "a", e));
    TRY(arg_given(there, "there", e));
    if (ms < 0)
        return kv_err_set(e, KV_E_VALUE, "a wait of %d ms", ms);
    *there = engine_wait_read_for(array_var(a), ms);
    return *there ? check_filled(a, e) : KV_OK;
}

int kv_array_read(kv_array *a, const void **data, kv_err *e)
{
    return read_data(a, KV_DEFAULT, data, e);
}

int kv_array_read_rows(kv_array *a, const void **data, kv_err *e)
{
    return read_data(a, KV_ROW_SPARSE, data, e);
}

static int write_data(kv_array *a, kv_storage storage, void **data, kv_err *e)
{
    TRY(check_access(a, data, storage, e));
    engine_wait_write(array_var(a));
    /* The memory of a view is shared with its base, so nobody else may hold that either. */
    int64_t holders = kv_array_refs(a);
    if (a->memory == ARRAY_VIEW)
        holders += kv_array_refs(a->base) - 1;
    if (holders > 1)
        return kv_err_set(e, KV_E_VALUE,
                          "an array can be written by its only holder; this one has %lld",
                          (long long)holders);
    a->unfilled = 0;
    *data = a->data;
    return mirror_host(a, MIRROR_CHANGE, e);
}

int kv_array_write(kv_array *a, void **data, kv_err *e)
{
    return write_data(a, KV_DEFAULT, data, e);
}

int kv_array_write_rows(kv_array *a, void **data, kv_err *e)
{
    return write_data(a, KV_ROW_SPARSE, data, e);
}

bool kv_array_same_shape(const kv_array *a, const kv_array *b)
{
    return array_same_shape(a, b);
}

int array_fill(kv_array *dst, const kv_array *src, kv_err *e)
{
    kv_assert(dst->size == src->size && sparse_is_full(dst),
              "an array of %lld elements is filled from %lld", (long long)dst->size,
              (long long)src->size);
    if (mirror_can_copy(dst, src))
        return mirror_copy(dst, src, e);
    TRY(mirror_host(src, MIRROR_READ, e));
    TRY(mirror_host(dst, MIRROR_WRITE, e));
    sparse_move(dst, src);
    return KV_OK;
}

typedef struct copy {
    engine_op op;
    kv_array *dst, *src;
} copy;

static int copy_run(engine_op *op, kv_err *e)
{
    const copy *c = (copy *)op;
    TRY(check_filled(c->src, e));
    if (c->dst->data == c->src->data)
        return KV_OK;
    if (c->dst->storage == KV_DEFAULT)
        return array_fill(c->dst, c->src, e);
    return sparse_replace(c->dst, c->src, e);
}

int kv_array_copy(kv_array *dst, kv_array *src, kv_err *e)
{
    char to[160], from[160];
    TRY(arg_given(dst, "dst", e));
    TRY(arg_given(src, "src", e));
    if (!array_fits(dst, src))
        return kv_err_set(e, KV_E_SHAPE, "an array of shape %s cannot be copied into one of %s",
                          kv_shape_text(from, sizeof from, src->ndim, array_shape(src)),
                          kv_shape_text(to, sizeof to, dst->ndim, array_shape(dst)));
    engine_use uses[] = {{.var = array_var(dst), .write = true}, {.var = array_var(src)}};
    copy c = {{.run = copy_run, .uses = uses, .nuses = 2}, dst, src};
    return engine_run_now(&c.op, e);
}

int kv_array_dup(kv_array **out, kv_array *src, kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    kv_array *a;
    TRY(arg_given(out, "out", e));
    TRY(arg_given(src, "src", e));
    TRY(src->storage == KV_ROW_SPARSE
            ? kv_array_new_sparse(&a, dtype, src->ndim, array_shape(src), 0, NULL, ctx, e)
            : kv_array_new_raw(&a, dtype, src->ndim, array_shape(src), ctx, e));
    return array_give(kv_array_copy(a, src, e), out, a);
}
