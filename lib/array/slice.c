/* Parts of arrays. A part is a layout over the memory of the whole: where it begins and one stride
 * for each axis that remains. */
#include "array/slice.h"

#include <stddef.h>

#include "array/strided.h"
#include "base/stop.h"

typedef struct part {
    int ndim;
    int64_t shape[KV_MAX_NDIM], strides[KV_MAX_NDIM];
    int64_t offset; /* elements from the first of the whole */
} part;

array_span array_range_span(const array_range *r, int64_t len)
{
    int64_t step = r->step ? r->step : 1;
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? len : len - 1; /* where bounds are cut */
    int64_t from = step > 0 ? low : high, to = step > 0 ? high : low;
    if (r->has_from)
        from = r->from < 0 ? r->from + len : r->from;
    if (r->has_to)
        to = r->to < 0 ? r->to + len : r->to;
    from = from < low ? low : from > high ? high : from;
    to = to < low ? low : to > high ? high : to;
    array_span span = {from, step, 0};
    if (step > 0 && from < to)
        span.n = (to - from - 1) / step + 1;
    else if (step < 0 && from > to)
        span.n = (to - from + 1) / step + 1;
    return span;
}

static int find_part(part *p, const kv_array *a, const array_range *ranges, int n, kv_err *e)
{
    int ndim = kv_array_ndim(a);
    const int64_t *shape = kv_array_shape(a);
    int64_t strides[KV_MAX_NDIM];
    if (n > ndim)
        return kv_err_set(e, KV_E_INDEX, "%d %s for an array with %d ax%cs", n,
                          n == 1 ? "index" : "indices", ndim, ndim == 1 ? 'i' : 'e');
    strided_rows(strides, ndim, shape);
    *p = (part){0};
    for (int i = 0; i < ndim; i++) {
        if (i < n && ranges[i].is_index) {
            int64_t at = ranges[i].index < 0 ? ranges[i].index + shape[i] : ranges[i].index;
            if (at < 0 || at >= shape[i])
                return kv_err_set(e, KV_E_INDEX, "index %lld is out of range: axis %d has %lld",
                                  (long long)ranges[i].index, i, (long long)shape[i]);
            p->offset += at * strides[i];
            continue;
        }
        array_span span = {0, 1, shape[i]};
        if (i < n)
            span = array_range_span(&ranges[i], shape[i]);
        /* An empty span may begin one beside the axis, and a single index may have any step. */
        if (span.n > 0)
            p->offset += span.from * strides[i];
        p->shape[p->ndim] = span.n;
        p->strides[p->ndim++] = span.n > 1 ? span.step * strides[i] : 0;
    }
    return KV_OK;
}

int array_slice(kv_array **out, kv_array *a, const array_range *ranges, int n, kv_err *e)
{
    part p;
    kv_array *made;
    const void *src;
    void *dst;
    int64_t rows[KV_MAX_NDIM], bytes = kv_dtype_bytes(kv_array_dtype(a));
    int rc = find_part(&p, a, ranges, n, e);
    if (rc || (rc = kv_array_read(a, &src, e)) ||
        (rc = kv_array_new_raw(&made, kv_array_dtype(a), p.ndim, p.shape, kv_array_ctx(a), e)))
        return rc;
    strided_rows(rows, p.ndim, p.shape);
    if (!(rc = kv_array_write(made, &dst, e)) &&
        !strided_copy(dst, rows, (const char *)src + p.offset * bytes, p.strides, p.ndim, p.shape,
                      bytes, true))
        rc = stop_error(e);
    if (rc)
        kv_array_unref(made);
    else
        *out = made;
    return rc;
}

/* The strides that repeat src over p: axes are matched from the last; a size of 1 repeats. */
static int broadcast(int64_t *strides, const part *p, const kv_array *src, kv_err *e)
{
    int ndim = kv_array_ndim(src), extra = p->ndim - ndim;
    const int64_t *shape = kv_array_shape(src);
    int64_t rows[KV_MAX_NDIM];
    char from[160], to[160];
    bool fits = true;
    strided_rows(rows, ndim, shape);
    for (int i = 0; i < p->ndim; i++)
        strides[i] = 0;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 1)
            continue;
        if (i + extra < 0 || shape[i] != p->shape[i + extra])
            fits = false;
        else
            strides[i + extra] = rows[i];
    }
    if (!fits)
        return kv_err_set(e, KV_E_SHAPE, "a value of shape %s does not fit a part of shape %s",
                          kv_shape_text(from, sizeof from, ndim, shape),
                          kv_shape_text(to, sizeof to, p->ndim, p->shape));
    return KV_OK;
}

int array_assign_slice(kv_array *a, const array_range *ranges, int n, kv_array *src, kv_err *e)
{
    part p;
    kv_array *own = NULL;
    int64_t strides[KV_MAX_NDIM], bytes = kv_dtype_bytes(kv_array_dtype(a));
    const void *from;
    void *to;
    int rc = find_part(&p, a, ranges, n, e);
    if (rc || (rc = broadcast(strides, &p, src, e)) ||
        (rc = kv_array_dup(&own, src, kv_array_dtype(a), kv_array_ctx(a), e)))
        return rc;
    if (!(rc = kv_array_read(own, &from, e)) && !(rc = kv_array_write(a, &to, e)))
        strided_copy((char *)to + p.offset * bytes, p.strides, from, strides, p.ndim, p.shape,
                     bytes, false);
    kv_array_unref(own);
    return rc;
}
