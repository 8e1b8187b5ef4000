/* Arrangements are layouts (below): each function works out the shape of the result and
 * the strides that read its elements from the source, and one copy does the rest. */
#include "array/arrange.h"

#include <string.h>

#include "array/mirror.h"
#include "base/mem.h"
#include "base/stop.h"

int arrange_axis(int64_t *axis, int ndim, kv_err *e)
{
    int64_t at = *axis < 0 ? *axis + ndim : *axis;
    if (at < 0 || at >= ndim)
        return kv_err_set(e, KV_E_INDEX, "axis %lld is out of range: the array has %d ax%cs",
                          (long long)*axis, ndim, ndim == 1 ? 'i' : 'e');
    *axis = at;
    return KV_OK;
}

/* A walk over a source that meets the elements of a result in row-major order. */
typedef struct layout {
    int ndim;
    int64_t shape[KV_MAX_NDIM], strides[KV_MAX_NDIM];
} layout;

/* A new array of shape, filled through a view of as many elements. */
static int gather(kv_array **out, kv_array *a, int ndim, const int64_t *shape, const layout *view,
                  kv_err *e)
{
    own_array *made = NULL;
    const void *src;
    void *dst;
    int64_t rows[KV_MAX_NDIM];
    TRY(array_make(&made, &dst, kv_array_dtype(a), ndim, shape, kv_array_ctx(a), e));
    TRY(kv_array_read(a, &src, e));
    strided_rows(rows, view->ndim, view->shape);
    if (!strided_copy(dst, rows, src, view->strides, view->ndim, view->shape,
                      kv_dtype_bytes(kv_array_dtype(a)), true))
        return stop_error(e);
    return array_hand_out(out, &made);
}

int arrange_zeros(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, kv_ctx ctx,
                  kv_err *e)
{
    own_array *made = NULL;
    void *dst;
    if (mirror_needed(ctx))
        return kv_array_new(out, dtype, ndim, shape, ctx, e);
    TRY(array_make(&made, &dst, dtype, ndim, shape, ctx, e));
    for (int64_t i = 0, bytes = kv_array_bytes(made); i < bytes; i += STOP_EVERY) {
        memset((char *)dst + i, 0, (size_t)at_most(bytes - i, STOP_EVERY));
        TRY(stop_check(e));
    }
    return array_hand_out(out, &made);
}

int arrange_copy(kv_array **out, kv_array *a, kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    own_array *made = NULL;
    const void *src;
    void *dst;
    kv_dtype from = kv_array_dtype(a);
    int64_t n = kv_array_size(a);
    if (n <= STOP_EVERY || a->storage == KV_ROW_SPARSE || mirror_has(a) || mirror_needed(ctx))
        return kv_array_dup(out, a, dtype, ctx, e);
    TRY(array_make(&made, &dst, dtype, kv_array_ndim(a), kv_array_shape(a), ctx, e));
    TRY(kv_array_read(a, &src, e));
    for (int64_t i = 0; i < n; i += STOP_EVERY) {
        TRY(stop_check(e));
        convert_elements((char *)dst + i * kv_dtype_bytes(dtype), dtype,
                         (const char *)src + i * kv_dtype_bytes(from), from,
                         at_most(n - i, STOP_EVERY));
    }
    return array_hand_out(out, &made);
}

int arrange_as(kv_array **out, kv_array *a, kv_dtype dtype, kv_err *e)
{
    if (kv_array_dtype(a) != dtype)
        return arrange_copy(out, a, dtype, kv_array_ctx(a), e);
    *out = kv_array_ref(a);
    return KV_OK;
}

/* ---- One array ---- */

/* Replaces a size of -1 by the one that gives `size` elements, if there is one. */
static int find_missing(int64_t *shape, int ndim, int64_t size, kv_err *e)
{
    int missing = -1;
    int64_t rest = 1;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] != -1) {
            if (__builtin_mul_overflow(rest, shape[i], &rest))
                return KV_OK; /* no array has so many elements: the comparison of shapes says so */
            continue;
        }
        if (missing >= 0)
            return kv_err_set(e, KV_E_SHAPE, "only one size of a shape can be -1");
        missing = i;
    }
    if (missing >= 0 && rest > 0 && size % rest == 0)
        shape[missing] = size / rest;
    return KV_OK;
}

int arrange_reshape(kv_array **out, kv_array *a, int ndim, const int64_t *shape, kv_err *e)
{
    char from[160], to[160];
    int64_t full[KV_MAX_NDIM], size = 1, n = kv_array_size(a);
    if (ndim > KV_MAX_NDIM)
        return kv_err_set(e, KV_E_SHAPE, "an array has 0 to %d axes, not %d", KV_MAX_NDIM, ndim);
    for (int i = 0; i < ndim; i++)
        full[i] = shape[i];
    TRY(find_missing(full, ndim, n, e));
    bool fits = true, empty = false;
    for (int i = 0; i < ndim; i++) {
        empty |= full[i] == 0;
        fits &= full[i] >= 0;
    }
    for (int i = 0; fits && !empty && i < ndim; i++)
        fits = !__builtin_mul_overflow(size, full[i], &size);
    if (!fits || (empty ? 0 : size) != n)
        return kv_err_set(e, KV_E_SHAPE, "an array of shape %s cannot have the shape %s",
                          kv_shape_text(from, sizeof from, kv_array_ndim(a), kv_array_shape(a)),
                          kv_shape_text(to, sizeof to, ndim, shape));
    const layout flat = {.ndim = 1, .shape = {n}, .strides = {1}};
    return gather(out, a, ndim, full, &flat, e);
}

int arrange_transpose(kv_array **out, kv_array *a, const int64_t *order, int n, kv_err *e)
{
    int ndim = kv_array_ndim(a);
    layout view = {.ndim = ndim};
    int64_t rows[KV_MAX_NDIM];
    bool used[KV_MAX_NDIM] = {false};
    if (order && n != ndim)
        return kv_err_set(e, KV_E_SHAPE, "a transpose names every axis once: %d of %d are named", n,
                          ndim);
    strided_rows(rows, ndim, kv_array_shape(a));
    for (int i = 0; i < ndim; i++) {
        int64_t from = order ? order[i] : ndim - 1 - i;
        TRY(arrange_axis(&from, ndim, e));
        if (used[from])
            return kv_err_set(e, KV_E_VALUE,
                              "a transpose names every axis once: axis %lld is "
                              "there twice",
                              (long long)from);
        used[from] = true;
        view.shape[i] = kv_array_shape(a)[from];
        view.strides[i] = rows[from];
    }
    return gather(out, a, ndim, view.shape, &view, e);
}

int arrange_broadcast(kv_array **out, kv_array *a, int ndim, const int64_t *shape, kv_err *e)
{
    char from[160], to[160];
    int own = kv_array_ndim(a), extra = ndim - own;
    int64_t rows[KV_MAX_NDIM];
    layout view = {.ndim = ndim};
    bool fits = extra >= 0 && ndim <= KV_MAX_NDIM;
    strided_rows(rows, own, kv_array_shape(a));
    for (int i = 0; fits && i < own; i++) {
        int64_t size = kv_array_shape(a)[i];
        fits = size == 1 || size == shape[i + extra];
        view.strides[i + extra] = size == 1 ? 0 : rows[i];
    }
    if (!fits)
        return kv_err_set(e, KV_E_SHAPE, "an array of shape %s does not broadcast to %s",
                          kv_shape_text(from, sizeof from, own, kv_array_shape(a)),
                          kv_shape_text(to, sizeof to, ndim, shape));
    for (int i = 0; i < ndim; i++)
        view.shape[i] = shape[i];
    return gather(out, a, ndim, shape, &view, e);
}

int arrange_common(int *ndim, int64_t shape[KV_MAX_NDIM], const kv_array *a, const kv_array *b,
                   kv_err *e)
{
    char one[160], two[160];
    int an = kv_array_ndim(a), bn = kv_array_ndim(b);
    *ndim = an > bn ? an : bn;
    for (int i = 0; i < *ndim; i++) {
        int ia = i - (*ndim - an), ib = i - (*ndim - bn);
        int64_t x = ia < 0 ? 1 : kv_array_shape(a)[ia], y = ib < 0 ? 1 : kv_array_shape(b)[ib];
        if (x != y && x != 1 && y != 1)
            return kv_err_set(e, KV_E_SHAPE, "shapes %s and %s do not broadcast together",
                              kv_shape_text(one, sizeof one, an, kv_array_shape(a)),
                              kv_shape_text(two, sizeof two, bn, kv_array_shape(b)));
        shape[i] = x == 1 ? y : x;
    }
    return KV_OK;
}

/* ---- Several arrays ---- */

/* An array that is joined: its shape has the axis of the join in it. */
typedef struct piece {
    int ndim;
    int64_t shape[KV_MAX_NDIM];
} piece;

static piece piece_of(const kv_array *a, int64_t axis, bool new_axis)
{
    piece p = {.ndim = kv_array_ndim(a) + new_axis};
    for (int i = 0, k = 0; i < p.ndim; i++)
        p.shape[i] = new_axis && i == axis ? 1 : kv_array_shape(a)[k++];
    return p;
}

/* The shape of the joined arrays, which begins as the first's. */
static int joined_shape(piece *whole, kv_array *const *a, int64_t n, int64_t axis, bool new_axis,
                        kv_err *e)
{
    *whole = piece_of(a[0], axis, new_axis);
    for (int64_t i = 1; i < n; i++) {
        TRY(stop_check_at(i, e));
        bool fits = kv_array_ndim(a[i]) == kv_array_ndim(a[0]); /* a piece has room for so many */
        piece p = fits ? piece_of(a[i], axis, new_axis) : (piece){0};
        for (int k = 0; fits && k < p.ndim; k++)
            fits = k == axis || p.shape[k] == whole->shape[k];
        if (!fits) {
            char one[160], two[160];
            kv_shape_text(one, sizeof one, kv_array_ndim(a[0]), kv_array_shape(a[0]));
            kv_shape_text(two, sizeof two, kv_array_ndim(a[i]), kv_array_shape(a[i]));
            if (new_axis)
                return kv_err_set(e, KV_E_SHAPE,
                                  "arrays of one shape can be stacked, not %s and %s", one, two);
            return kv_err_set(e, KV_E_SHAPE,
                              "arrays of shape %s and %s do not join along axis %lld", one, two,
                              (long long)axis);
        }
        if (__builtin_add_overflow(whole->shape[axis], p.shape[axis], &whole->shape[axis]))
            return kv_err_set(e, KV_E_SHAPE, "the joined arrays are too large");
    }
    return KV_OK;
}

static int join(kv_array **out, kv_array *const *a, int64_t n, int64_t axis, bool new_axis,
                kv_dtype dtype, kv_err *e)
{
    piece whole;
    own_array *made = NULL;
    void *dst;
    int64_t rows[KV_MAX_NDIM], bytes = kv_dtype_bytes(dtype), at = 0;
    TRY(joined_shape(&whole, a, n, axis, new_axis, e));
    TRY(array_make(&made, &dst, dtype, whole.ndim, whole.shape, kv_array_ctx(a[0]), e));
    strided_rows(rows, whole.ndim, whole.shape);
    for (int64_t i = 0; i < n; i++) {
        piece p = piece_of(a[i], axis, new_axis);
        int64_t own[KV_MAX_NDIM];
        own_array *src = NULL;
        const void *data;
        strided_rows(own, p.ndim, p.shape);
        TRY(arrange_as(&src, a[i], dtype, e));
        TRY(stop_check_at(i, e));
        TRY(kv_array_read(src, &data, e));
        if (!strided_copy((char *)dst + at * rows[axis] * bytes, rows, data, own, p.ndim, p.shape,
                          bytes, true))
            return stop_error(e);
        at += p.shape[axis];
    }
    return array_hand_out(out, &made);
}

int arrange_concat(kv_array **out, kv_array *const *a, int64_t n, int64_t axis, kv_dtype dtype,
                   kv_err *e)
{
    if (kv_array_ndim(a[0]) == 0)
        return kv_err_set(e, KV_E_SHAPE,
                          "arrays without axes cannot be joined along one; stack() "
                          "makes a new one");
    int rc = arrange_axis(&axis, kv_array_ndim(a[0]), e);
    return rc ? rc : join(out, a, n, axis, false, dtype, e);
}

int arrange_stack(kv_array **out, kv_array *const *a, int64_t n, int64_t axis, kv_dtype dtype,
                  kv_err *e)
{
    int ndim = kv_array_ndim(a[0]) + 1;
    if (ndim > KV_MAX_NDIM)
        return kv_err_set(e, KV_E_SHAPE, "an array has 0 to %d axes, not %d", KV_MAX_NDIM, ndim);
    int rc = arrange_axis(&axis, ndim, e);
    return rc ? rc : join(out, a, n, axis, true, dtype, e);
}

/* ---- Repeating ---- */

static int check_times(int64_t times, kv_err *e)
{
    if (times < 0)
        return kv_err_set(e, KV_E_VALUE, "an array is repeated 0 times or more, not %lld",
                          (long long)times);
    return KV_OK;
}

/* An axis `times` as long. The result is seen with one axis more, that of the times: inside the
 * repeated axis for repeat, before it for tile; the source does not move along it. */
static int spread(kv_array **out, kv_array *a, int axis, int64_t times, bool tile, kv_err *e)
{
    int ndim = kv_array_ndim(a);
    int64_t shape[KV_MAX_NDIM], outer = 1, inner = 1, len = kv_array_shape(a)[axis];
    for (int i = 0; i < ndim; i++)
        shape[i] = kv_array_shape(a)[i];
    if (__builtin_mul_overflow(len, times, &shape[axis]))
        return kv_err_set(e, KV_E_SHAPE, "the repeated array is too large");
    if (kv_array_size(a) == 0)
        return kv_array_new(out, kv_array_dtype(a), ndim, shape, kv_array_ctx(a), e);
    for (int i = 0; i < axis; i++)
        outer *= shape[i];
    for (int i = axis + 1; i < ndim; i++)
        inner *= shape[i];
    const layout view = {
        .ndim = 4,
        .shape = {outer, tile ? times : len, tile ? len : times, inner},
        .strides = {len * inner, tile ? 0 : inner, tile ? inner : 0, 1},
    };
    return gather(out, a, ndim, shape, &view, e);
}

int arrange_repeat(kv_array **out, kv_array *a, int64_t times, int64_t axis, kv_err *e)
{
    TRY(check_times(times, e));
    TRY(arrange_axis(&axis, kv_array_ndim(a), e));
    return spread(out, a, (int)axis, times, false, e);
}

int arrange_tile(kv_array **out, kv_array *a, const int64_t *times, int n, kv_err *e)
{
    int own = kv_array_ndim(a), ndim = n > own ? n : own;
    int64_t shape[KV_MAX_NDIM];
    if (ndim > KV_MAX_NDIM)
        return kv_err_set(e, KV_E_SHAPE, "an array has 0 to %d axes, not %d", KV_MAX_NDIM, ndim);
    for (int i = 0; i < ndim; i++)
        shape[i] = i < ndim - own ? 1 : kv_array_shape(a)[i - (ndim - own)];
    for (int i = 0; i < n; i++)
        TRY(check_times(times[i], e));
    own_array *whole = NULL;
    TRY(arrange_reshape(&whole, a, ndim, shape, e));
    /* from the last axis on, so that the larger arrays move in longer pieces */
    for (int i = n - 1; i >= 0; i--) {
        kv_array *more;
        if (times[i] == 1)
            continue;
        TRY(spread(&more, whole, i + ndim - n, times[i], true, e));
        kv_array_unref(whole);
        whole = more;
    }
    return array_hand_out(out, &whole);
}

/* The dtype of the result of two arrays: dtypes have ranks, and the higher one holds the
 * lower, but for two pairs that hold each other's numbers neither way. */

static int rank_of(kv_dtype dtype)
{
    switch (dtype) {
    case KV_BOOL:
        return 0;
    case KV_UINT8:
        return 1;
    case KV_INT8:
        return 2;
    case KV_INT32:
        return 3;
    case KV_INT64:
        return 4;
    case KV_FLOAT16:
        return 5;
    case KV_BFLOAT16:
        return 6;
    case KV_FLOAT32:
        return 7;
    case KV_FLOAT64:
        return 8;
    }
    return 0;
}

kv_dtype promote_dtypes(kv_dtype a, kv_dtype b)
{
    kv_dtype low = rank_of(a) < rank_of(b) ? a : b, high = low == a ? b : a;
    if (low == KV_FLOAT16 && high == KV_BFLOAT16)
        return KV_FLOAT32;
    if (low == KV_UINT8 && high == KV_INT8)
        return KV_INT32;
    return high;
}

/* ---- Copying between layouts -------------------------------------------------------------------
 *
 * Axes that follow each other without a gap in both layouts are joined to one first, so that the
 * inner loop is as long as it can be: a copy of whole rows becomes memcpy. What remains is walked
 * like an odometer, the last axis fastest. When the source jumps along the last axis, as in a
 * transpose, the last two axes are walked in square tiles, so that what is read stays in the cache
 * until its neighbours are needed.
 */

/* Rows and columns of a tile: 32 cache lines of each side fit the L1 cache. */
enum { TILE = 32 };

typedef struct copy_job {
    int ndim;
    int64_t bytes; /* of an element */
    int64_t shape[KV_MAX_NDIM], dst[KV_MAX_NDIM], src[KV_MAX_NDIM];
    bool may_stop;
    int64_t copied; /* elements since stop_asked was asked */
} copy_job;

void strided_rows(int64_t *strides, int ndim, const int64_t *shape)
{
    int64_t step = 1;
    for (int i = 0; i < ndim; i++)
        if (shape[i] == 0)
            step = 0;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = step;
        step *= shape[i];
    }
}

/* Drops axes of one index and joins axes without a gap between them. Returns whether there are any
 * elements. */
static bool simplify(copy_job *l, const int64_t *dst, const int64_t *src, int ndim,
                     const int64_t *shape)
{
    l->ndim = 0;
    for (int i = 0; i < ndim; i++)
        if (shape[i] == 0)
            return false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 1)
            continue;
        int k = l->ndim - 1;
        if (k >= 0 && l->dst[k] == dst[i] * shape[i] && l->src[k] == src[i] * shape[i]) {
            l->shape[k] *= shape[i];
        } else {
            k = l->ndim++;
            l->shape[k] = shape[i];
        }
        l->dst[k] = dst[i];
        l->src[k] = src[i];
    }
    return true;
}

/* Elements of a file need not be aligned. */
#define RUN(type)                                                                                  \
    {                                                                                              \
        typedef type element __attribute__((aligned(1)));                                          \
        element *d = dst;                                                                          \
        const element *s = src;                                                                    \
        for (int64_t i = 0; i < n; i++)                                                            \
            d[i * dst_step] = s[i * src_step];                                                     \
        return;                                                                                    \
    }

/* One axis. */
static void copy_run(void *dst, int64_t dst_step, const void *src, int64_t src_step, int64_t n,
                     int64_t bytes)
{
    if (dst_step == 1 && src_step == 1) {
        memcpy(dst, src, (size_t)(n * bytes));
        return;
    }
    if (bytes == 1)
        RUN(uint8_t)
    if (bytes == 2)
        RUN(uint16_t)
    if (bytes == 4)
        RUN(uint32_t)
    RUN(uint64_t)
}

/* Returns true if the copy goes on after n more elements, false if it shall stop early. */
static bool goes_on(copy_job *l, int64_t n)
{
    l->copied += n;
    if (l->copied < STOP_EVERY)
        return true;
    l->copied = 0;
    return !(l->may_stop && stop_asked());
}

/* The last axis. */
static bool copy_line(char *dst, const char *src, copy_job *l)
{
    int c = l->ndim - 1;
    for (int64_t i = 0, n; i < l->shape[c]; i += n) {
        n = at_most(l->shape[c] - i, STOP_EVERY);
        copy_run(dst + i * l->dst[c] * l->bytes, l->dst[c], src + i * l->src[c] * l->bytes,
                 l->src[c], n, l->bytes);
        if (!goes_on(l, n))
            return false;
    }
    return true;
}

/* The last two axes, where the source jumps along the last. */
static bool copy_tiles(char *dst, const char *src, copy_job *l)
{
    int r = l->ndim - 2, c = l->ndim - 1;
    for (int64_t i0 = 0; i0 < l->shape[r]; i0 += TILE) {
        for (int64_t j0 = 0; j0 < l->shape[c]; j0 += TILE) {
            int64_t end = at_most(i0 + TILE, l->shape[r]), n = at_most(l->shape[c] - j0, TILE);
            for (int64_t i = i0; i < end; i++)
                copy_run(dst + (i * l->dst[r] + j0 * l->dst[c]) * l->bytes, l->dst[c],
                         src + (i * l->src[r] + j0 * l->src[c]) * l->bytes, l->src[c], n, l->bytes);
            if (!goes_on(l, n * (end - i0)))
                return false;
        }
    }
    return true;
}

bool strided_copy(void *dst, const int64_t *dst_strides, const void *src,
                  const int64_t *src_strides, int ndim, const int64_t *shape, int64_t bytes,
                  bool may_stop)
{
    copy_job l = {.bytes = bytes, .may_stop = may_stop};
    int64_t at[KV_MAX_NDIM] = {0};
    char *d = dst;
    const char *s = src;
    if (!simplify(&l, dst_strides, src_strides, ndim, shape))
        return true;
    if (l.ndim == 0) {
        memcpy(dst, src, (size_t)bytes);
        return true;
    }
    int last = l.ndim - 1;
    bool tiles = last > 0 && l.src[last] != 1 && l.src[last] != 0;
    int outer = tiles ? last - 1 : last;
    for (;;) {
        if (!(tiles ? copy_tiles(d, s, &l) : copy_line(d, s, &l)))
            return false;
        int i = outer - 1;
        while (i >= 0 && at[i] + 1 == l.shape[i]) {
            d -= at[i] * l.dst[i] * bytes;
            s -= at[i] * l.src[i] * bytes;
            at[i--] = 0;
        }
        if (i < 0)
            return true;
        at[i]++;
        d += l.dst[i] * bytes;
        s += l.src[i] * bytes;
    }
}
