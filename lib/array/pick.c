/* Ids and masks become places block by block, on several threads: each is a pass over memory that
 * is followed by another one, of the elements. */
#include "array/slice.h"

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>

#include "array/arrange.h"
#include "array/device.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/stop.h"
#include "cpu/cpu.h"
#include "engine/pool.h"

static int64_t count_parts(int64_t n)
{
    return (n + STOP_EVERY - 1) / STOP_EVERY;
}

/* ---- Ids ---- */

typedef struct id_job {
    const char *ids;
    kv_dtype dtype;
    int64_t n, len, stride, *to;
    _Atomic int64_t bad; /* the first id that is none; n where all are fine */
    _Atomic bool stopped;
} id_job;

/* Returns true if all of n ids are indices of an axis of len. */
CPU_CLONES static bool place(int64_t *to, const int64_t *ids, int64_t n, int64_t len,
                             int64_t stride)
{
    bool wrong = false;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = ids[i] < 0 ? (int64_t)((uint64_t)ids[i] + (uint64_t)len) : ids[i];
        wrong |= (uint64_t)at >= (uint64_t)len;
        to[i] = (int64_t)((uint64_t)at * (uint64_t)stride);
    }
    return !wrong;
}

/* Returns true if all of n numbers are whole and fit int64. */
static bool whole_numbers(int64_t *to, const double *x, int64_t n)
{
    bool wrong = false;
    for (int64_t i = 0; i < n; i++) {
        bool fits = x[i] >= -0x1p62 && x[i] <= 0x1p62;
        to[i] = fits ? (int64_t)x[i] : 0;
        wrong |= !fits || (double)to[i] != x[i];
    }
    return !wrong;
}

/* Places n ids from number i on. */
static bool place_some(id_job *j, int64_t i, int64_t n)
{
    double numbers[512];
    int64_t whole[512];
    const char *from = j->ids + i * kv_dtype_bytes(j->dtype);
    if (j->dtype == KV_INT64)
        return place(j->to + i, (const int64_t *)(const void *)from, n, j->len, j->stride);
    if (kv_dtype_is_float(j->dtype)) {
        convert_elements(numbers, KV_FLOAT64, from, j->dtype, n);
        return whole_numbers(whole, numbers, n) && place(j->to + i, whole, n, j->len, j->stride);
    }
    convert_elements(whole, KV_INT64, from, j->dtype, n);
    return place(j->to + i, whole, n, j->len, j->stride);
}

static void place_part(void *arg, int64_t part, int worker)
{
    id_job *j = arg;
    int64_t end = at_most(j->n, (part + 1) * STOP_EVERY);
    (void)worker;
    if (stop_shared(&j->stopped))
        return;
    for (int64_t i = part * STOP_EVERY, n; i < end; i += n) {
        n = at_most(end - i, 512);
        if (place_some(j, i, n))
            continue;
        while (place_some(j, i, 1))
            i++;
        int64_t bad = j->bad;
        while (i < bad && !atomic_compare_exchange_weak(&j->bad, &bad, i))
            ;
        return;
    }
}

static int bad_id(const id_job *j, int axis, kv_err *e)
{
    char text[NUM_TEXT_MAX];
    double number;
    int64_t id, bytes = kv_dtype_bytes(j->dtype);
    convert_elements(&number, KV_FLOAT64, j->ids + j->bad * bytes, j->dtype, 1);
    convert_elements(&id, KV_INT64, j->ids + j->bad * bytes, j->dtype, 1);
    if (kv_dtype_is_float(j->dtype) && !(number == floor(number) && fabs(number) <= 0x1p62)) {
        num_plain(text, number, NUM_BINARY64);
        return kv_err_set(e, KV_E_DTYPE, "an index is a whole number, not %s", text);
    }
    return kv_err_set(e, KV_E_INDEX, "index %lld is out of range: axis %d has %lld", (long long)id,
                      axis, (long long)j->len);
}

int pick_ids(kv_array **places, kv_array *ids, int axis, int64_t len, int64_t stride, kv_err *e)
{
    kv_array *made;
    const void *from;
    void *to;
    int rc = kv_array_read(ids, &from, e);
    if (rc || (rc = kv_array_new_raw(&made, KV_INT64, kv_array_ndim(ids), kv_array_shape(ids),
                                     (kv_ctx){KV_CPU, 0}, e)))
        return rc;
    rc = kv_array_write(made, &to, e);
    id_job j = {.ids = from,
                .dtype = kv_array_dtype(ids),
                .n = kv_array_size(ids),
                .len = len,
                .stride = stride,
                .to = to,
                .bad = kv_array_size(ids)};
    if (!rc) {
        pool_run(count_parts(j.n), place_part, &j);
        rc = j.stopped ? stop_error(e) : j.bad < j.n ? bad_id(&j, axis, e) : KV_OK;
    }
    return array_give(rc, places, made);
}

/* ---- Masks ---- */

typedef struct mask_job {
    const unsigned char *mask;
    int64_t n, stride, *begin; /* begin[part]: how many elements the parts before hold */
    int64_t *to;               /* NULL while they are counted */
    _Atomic bool stopped;
} mask_job;

CPU_CLONES static int64_t count_mask(const unsigned char *mask, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += mask[i] != 0;
    return count;
}

/* Writes a place for every element and keeps those of elements that hold: there are as many places
 * as are counted, so the ones behind the last are not written. */
static void place_mask(int64_t *to, const unsigned char *mask, int64_t from, int64_t n,
                       int64_t stride)
{
    int64_t kept[512];
    for (int64_t at = 0, m; at < n; at += m) {
        int64_t count = 0;
        m = at_most(n - at, 512);
        for (int64_t i = 0; i < m; i++) {
            kept[count] = (from + at + i) * stride;
            count += mask[at + i] != 0;
        }
        for (int64_t i = 0; i < count; i++)
            *to++ = kept[i];
    }
}

static void mask_part(void *arg, int64_t part, int worker)
{
    mask_job *j = arg;
    int64_t from = part * STOP_EVERY, n = at_most(j->n - from, STOP_EVERY);
    (void)worker;
    if (stop_shared(&j->stopped))
        return;
    if (!j->to)
        j->begin[part + 1] = count_mask(j->mask + from, n);
    else
        place_mask(j->to + j->begin[part], j->mask + from, from, n, j->stride);
}

int pick_mask(kv_array **places, kv_array *mask, int64_t stride, kv_err *e)
{
    const void *from;
    void *to;
    kv_array *made = NULL, *truth = kv_array_ref(mask);
    kv_ctx ctx = {KV_CPU, 0};
    int rc = KV_OK;
    if (kv_array_dtype(mask) != KV_BOOL) {
        kv_array_unref(truth);
        if ((rc = arrange_copy(&truth, mask, KV_BOOL, ctx, e)))
            return rc;
    }
    int64_t n = kv_array_size(truth), parts = count_parts(n);
    mask_job j = {.n = n, .stride = stride, .begin = mem_zalloc(parts + 1, sizeof *j.begin, e)};
    if (!j.begin || (rc = kv_array_read(truth, &from, e)))
        goto out;
    j.mask = from;
    pool_run(parts, mask_part, &j);
    for (int64_t i = 0; i < parts; i++)
        j.begin[i + 1] += j.begin[i];
    if (j.stopped) {
        rc = stop_error(e);
    } else if (!(rc = kv_array_new_raw(&made, KV_INT64, 1, &j.begin[parts], ctx, e)) &&
               !(rc = kv_array_write(made, &to, e))) {
        j.to = to;
        pool_run(parts, mask_part, &j);
        rc = j.stopped ? stop_error(e) : KV_OK;
    }
out:
    rc = j.begin ? rc : KV_E_MEMORY;
    mem_free(j.begin);
    kv_array_unref(truth);
    return array_give(rc, places, made);
}

/* ---- Several together ---- */

static int add(kv_array *to, kv_array *from, kv_err *e)
{
    void *data;
    const void *more;
    int rc = kv_array_write(to, &data, e);
    if (rc || (rc = kv_array_read(from, &more, e)))
        return rc;
    int64_t *x = data;
    const int64_t *y = more;
    for (int64_t i = 0; i < kv_array_size(to); i++) {
        if (i % STOP_EVERY == 0 && (rc = stop_check(e)))
            return rc;
        x[i] += y[i];
    }
    return KV_OK;
}

int pick_join(kv_array **places, kv_array *more, kv_err *e)
{
    kv_array *one = NULL, *two = NULL;
    int ndim;
    int64_t shape[KV_MAX_NDIM];
    if (!*places) {
        *places = more;
        return KV_OK;
    }
    int rc = arrange_common(&ndim, shape, *places, more, e);
    if (rc)
        kv_err_hint(e, "index arrays pair up, element by element: x[[0, 1], [2, 3]]");
    else if (!(rc = arrange_broadcast(&one, *places, ndim, shape, e)) &&
             !(rc = arrange_broadcast(&two, more, ndim, shape, e)))
        rc = add(one, two, e);
    kv_array_unref(two);
    kv_array_unref(more);
    if (rc) {
        kv_array_unref(one);
    } else {
        kv_array_unref(*places);
        *places = one;
    }
    return rc;
}

int pick_index(kv_array **out, kv_array *places, int64_t len, int64_t stride, kv_err *e)
{
    const void *from;
    void *to;
    kv_array *made;
    int rc = kv_array_read(places, &from, e);
    if (rc || (rc = kv_array_new_raw(&made, KV_INT64, kv_array_ndim(places), kv_array_shape(places),
                                     kv_array_ctx(places), e)))
        return rc;
    rc = kv_array_write(made, &to, e);
    const int64_t *x = from;
    int64_t *y = to;
    for (int64_t i = 0; i < kv_array_size(places) && !rc; i++) {
        if (i % STOP_EVERY == 0)
            rc = stop_check(e);
        y[i] = x[i] / stride % len;
    }
    return array_give(rc, out, made);
}
