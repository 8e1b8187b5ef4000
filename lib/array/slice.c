/* Parts of arrays. A part is a layout over the memory of the whole: where it begins and one stride
 * for each axis that remains. Where arrays of indices pick, their axes have places instead of
 * strides (slice.h): the part is a table of blocks, which lie at any place of the whole. */
#include "array/slice.h"

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "array/arrange.h"
#include "array/device.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/stop.h"
#include "cpu/cpu.h"
#include "engine/pool.h"
#include "kv_array.h"

typedef struct part {
    int ndim;
    int64_t shape[KV_MAX_NDIM], strides[KV_MAX_NDIM];
    int64_t offset;   /* elements from the first of the whole */
    kv_array *places; /* (optional, own) what ids pick; its axes begin at `first` */
    int first;
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

/* ---- Finding a part ---- */

/* The state of the search: the next axis of the array, and where ids stood. */
typedef struct search {
    const int64_t *shape;
    int64_t strides[KV_MAX_NDIM];
    int ndim, axis;
    bool picked, ended; /* an index or ids stood here; and then something else */
} search;

static int add_axis(part *p, int64_t n, int64_t stride, kv_err *e)
{
    if (p->ndim == KV_MAX_NDIM)
        return kv_err_set(e, KV_E_SHAPE, "an array has 0 to %d axes", KV_MAX_NDIM);
    p->shape[p->ndim] = n;
    p->strides[p->ndim++] = stride;
    return KV_OK;
}

/* One index, or several: the axes of all of them stand where the first stood, or in front. */
static int take_ids(part *p, search *s, const array_range *r, kv_err *e)
{
    int64_t len = s->axis < s->ndim ? s->shape[s->axis] : 0;
    p->first = s->ended ? 0 : s->picked ? p->first : p->ndim;
    s->picked = true;
    if (!r->ids) {
        int64_t at = r->index < 0 ? r->index + len : r->index;
        if (at < 0 || at >= len)
            return kv_err_set(e, KV_E_INDEX, "index %lld is out of range: axis %d has %lld",
                              (long long)r->index, s->axis, (long long)len);
        p->offset += at * s->strides[s->axis++];
        return KV_OK;
    }
    kv_array *places;
    bool mask = kv_array_dtype(r->ids) == KV_BOOL;
    int axes = mask ? kv_array_ndim(r->ids) : 1;
    char one[160], two[160];
    if (axes == 0)
        return kv_err_set(e, KV_E_DTYPE, "a mask has a bool for each element of an axis");
    if (mask &&
        memcmp(kv_array_shape(r->ids), s->shape + s->axis, (size_t)axes * sizeof(int64_t)) != 0)
        return kv_err_set(e, KV_E_SHAPE, "a mask of shape %s does not fit axes of shape %s",
                          kv_shape_text(one, sizeof one, axes, kv_array_shape(r->ids)),
                          kv_shape_text(two, sizeof two, axes, s->shape + s->axis));
    int rc = mask ? pick_mask(&places, r->ids, s->strides[s->axis + axes - 1], e)
                  : pick_ids(&places, r->ids, s->axis, len, s->strides[s->axis], e);
    s->axis += axes;
    return rc ? rc : pick_join(&p->places, places, e);
}

static int take_range(part *p, search *s, const array_range *r, kv_err *e)
{
    int64_t stride = s->strides[s->axis];
    array_span span = array_range_span(r, s->shape[s->axis++]);
    /* An empty span may begin one beside the axis, and a single index may have any step. */
    if (span.n > 0)
        p->offset += span.from * stride;
    return add_axis(p, span.n, span.n > 1 ? span.step * stride : 0, e);
}

/* Puts the axes of the places at p->first. */
static int insert_places(part *p, kv_err *e)
{
    int ndim = p->places ? kv_array_ndim(p->places) : 0, behind = p->ndim - p->first;
    if (p->ndim + ndim > KV_MAX_NDIM)
        return kv_err_set(e, KV_E_SHAPE, "an array has 0 to %d axes", KV_MAX_NDIM);
    memmove(p->shape + p->first + ndim, p->shape + p->first, (size_t)behind * sizeof(int64_t));
    memmove(p->strides + p->first + ndim, p->strides + p->first, (size_t)behind * sizeof(int64_t));
    for (int i = 0; i < ndim; i++) {
        p->shape[p->first + i] = kv_array_shape(p->places)[i];
        p->strides[p->first + i] = 0;
    }
    p->ndim += ndim;
    return KV_OK;
}

/* The caller lets go p->places, also after an error. */
static int find_part(part *p, const kv_array *a, const array_range *ranges, int n, kv_err *e)
{
    search s = {.shape = kv_array_shape(a), .ndim = kv_array_ndim(a)};
    const array_range whole = {0};
    int axes = 0, rc = KV_OK; /* that ranges take, without those of `...` */
    *p = (part){0};
    for (int i = 0; i < n; i++) {
        const kv_array *ids = ranges[i].ids;
        bool mask = ids && kv_array_dtype(ids) == KV_BOOL;
        axes += ranges[i].is_new || ranges[i].is_rest ? 0 : mask ? kv_array_ndim(ids) : 1;
    }
    if (axes > s.ndim)
        return kv_err_set(e, KV_E_INDEX, "%d %s for an array with %d ax%cs", axes,
                          axes == 1 ? "index" : "indices", s.ndim, s.ndim == 1 ? 'i' : 'e');
    strided_rows(s.strides, s.ndim, s.shape);
    for (int i = 0; i < n && !rc; i++) {
        if (ranges[i].is_index || ranges[i].ids) {
            rc = take_ids(p, &s, &ranges[i], e);
            continue;
        }
        s.ended = s.picked;
        if (ranges[i].is_new)
            rc = add_axis(p, 1, 0, e);
        else if (!ranges[i].is_rest)
            rc = take_range(p, &s, &ranges[i], e);
        for (int k = axes; ranges[i].is_rest && k < s.ndim && !rc; k++)
            rc = take_range(p, &s, &whole, e);
    }
    while (s.axis < s.ndim && !rc)
        rc = take_range(p, &s, &whole, e);
    return rc ? rc : insert_places(p, e);
}

/* ---- Blocks at places ---- */

/* A part with places, beside an array that holds its elements one behind the other. The part's
 * axes are those in front of the places, which are counted as one, the places, and the rest: a
 * block. */
typedef struct pick_job {
    const part *p;
    char *whole, *packed;
    const int64_t *places;
    int64_t n, fronts;         /* places, and indices in front of them */
    int64_t bytes, block;      /* of an element; elements of a block */
    int64_t step;              /* from one packed block to the next, in elements: block, or 0 */
    const int64_t *shape, *strides, *rows; /* of a block: in the whole, and packed */
    int ndim;
    bool put, run;             /* towards the whole; blocks are runs of memory */
} pick_job;

#define MOVE(T)                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                              \
        T *x = (T *)(void *)whole + places[i], *y = (T *)(void *)packed + i * j->step;             \
        *(j->put ? x : y) = *(j->put ? y : x);                                                     \
    }                                                                                              \
    return;

/* n blocks of one element each. */
static void move_elements(const pick_job *j, char *whole, char *packed, const int64_t *places,
                          int64_t n)
{
    if (j->bytes == 1) {
        MOVE(uint8_t)
    }
    if (j->bytes == 2) {
        MOVE(uint16_t)
    }
    if (j->bytes == 4) {
        MOVE(uint32_t)
    }
    MOVE(uint64_t)
}

static void move_blocks(const pick_job *j, char *whole, char *packed, const int64_t *places,
                        int64_t n)
{
    if (j->block == 1) {
        move_elements(j, whole, packed, places, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        char *x = whole + places[i] * j->bytes, *y = packed + i * j->step * j->bytes;
        if (j->run)
            memcpy(j->put ? x : y, j->put ? y : x, (size_t)(j->block * j->bytes));
        else if (j->put)
            strided_copy(x, j->strides, y, j->rows, j->ndim, j->shape, j->bytes, false);
        else
            strided_copy(y, j->rows, x, j->strides, j->ndim, j->shape, j->bytes, false);
    }
}

/* How far the blocks of index i of the axes in front lie from those of the first. */
static int64_t front_offset(const part *p, int64_t i)
{
    int64_t at = 0;
    for (int k = p->first - 1; k >= 0; k--) {
        at += i % p->shape[k] * p->strides[k];
        i /= p->shape[k];
    }
    return at;
}

/* Some of the fronts * n blocks, about STOP_EVERY elements. */
static int pick_part(void *arg, int64_t piece, int worker, kv_err *e)
{
    pick_job *j = arg;
    int64_t each = j->block < STOP_EVERY ? STOP_EVERY / j->block : 1;
    int64_t i = piece * each, end = i + each, all = j->fronts * j->n;
    (void)worker, (void)e;
    end = end < all ? end : all;
    for (int64_t n; i < end; i += n) {
        int64_t front = i / j->n, k = i % j->n;
        n = j->n - k < end - i ? j->n - k : end - i;
        move_blocks(j, j->whole + (j->p->offset + front_offset(j->p, front)) * j->bytes,
                    j->packed + i * j->step * j->bytes, j->places + k, n);
    }
    return KV_OK;
}

/* Copies between a part and packed blocks; of those that are put, one after the other, since a
 * place may be there twice. one: there is a single block, for all places. */
static int move_picked(const part *p, void *whole, void *packed, int64_t bytes, bool put, bool one,
                       kv_err *e)
{
    int inner = p->first + kv_array_ndim(p->places);
    int64_t rows[KV_MAX_NDIM];
    const void *places;
    pick_job j = {.p = p,
                  .whole = whole,
                  .packed = packed,
                  .n = kv_array_size(p->places),
                  .fronts = 1,
                  .bytes = bytes,
                  .block = 1,
                  .shape = p->shape + inner,
                  .strides = p->strides + inner,
                  .rows = rows,
                  .ndim = p->ndim - inner,
                  .put = put,
                  .run = true};
    TRY(kv_array_read(p->places, &places, e));
    strided_rows(rows, j.ndim, j.shape);
    for (int i = 0; i < p->first; i++)
        j.fronts *= p->shape[i];
    for (int i = 0; i < j.ndim; i++) {
        j.block *= j.shape[i];
        j.run &= j.shape[i] == 1 || j.strides[i] == rows[i];
    }
    if (j.block * j.fronts == 0 || j.n == 0)
        return KV_OK;
    j.places = places;
    j.step = one ? 0 : j.block;
    int64_t each = j.block < STOP_EVERY ? STOP_EVERY / j.block : 1;
    int64_t parts = (j.fronts * j.n + each - 1) / each;
    if (!put)
        return pool_each(parts, pick_part, &j, e);
    for (int64_t i = 0; i < parts; i++)
        pick_part(&j, i, 0, e);
    return KV_OK;
}

/* ---- Reading ---- */

static void part_release(part *p)
{
    kv_array_unref(p->places);
}

int array_slice(kv_array **out, kv_array *a, const array_range *ranges, int n, kv_err *e)
{
    OWN(part_release) part p = {0};
    own_array *made = NULL;
    const void *src;
    void *dst;
    int64_t rows[KV_MAX_NDIM], bytes = kv_dtype_bytes(kv_array_dtype(a));
    TRY(find_part(&p, a, ranges, n, e));
    TRY(kv_array_read(a, &src, e));
    TRY(array_make(&made, &dst, kv_array_dtype(a), p.ndim, p.shape, kv_array_ctx(a), e));
    strided_rows(rows, p.ndim, p.shape);
    if (p.places)
        TRY(move_picked(&p, (void *)(uintptr_t)src, dst, bytes, false, false, e));
    else if (!strided_copy(dst, rows, (const char *)src + p.offset * bytes, p.strides, p.ndim,
                           p.shape, bytes, true))
        return stop_error(e);
    return array_hand_out(out, &made);
}

/* ---- Assigning ---- */

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

/* Writes `own`, which has a's dtype, into blocks at places. */
static int put_picked(const part *p, void *to, kv_array *own, int64_t bytes, kv_err *e)
{
    const void *from;
    own_array *wide = NULL, *flat = NULL; /* flat: without axes of size 1 that the part lacks */
    int inner = p->first + kv_array_ndim(p->places);
    bool one = kv_array_size(own) == 1; /* then a single block does for all places */
    int extra = kv_array_ndim(own) - (one ? 0 : p->ndim);
    if (extra > 0)
        TRY(arrange_reshape(&flat, own, kv_array_ndim(own) - extra, kv_array_shape(own) + extra,
                            e));
    TRY(arrange_broadcast(&wide, flat ? flat : own, one ? p->ndim - inner : p->ndim,
                          one ? p->shape + inner : p->shape, e));
    TRY(kv_array_read(wide, &from, e));
    return move_picked(p, to, (void *)(uintptr_t)from, bytes, true, one, e);
}

int array_assign_slice(kv_array *a, const array_range *ranges, int n, kv_array *src, kv_err *e)
{
    OWN(part_release) part p = {0};
    own_array *own = NULL;
    int64_t strides[KV_MAX_NDIM], bytes = kv_dtype_bytes(kv_array_dtype(a));
    const void *from;
    void *to;
    TRY(find_part(&p, a, ranges, n, e));
    TRY(broadcast(strides, &p, src, e));
    TRY(kv_array_dup(&own, src, kv_array_dtype(a), kv_array_ctx(a), e));
    TRY(kv_array_read(own, &from, e));
    TRY(kv_array_write(a, &to, e));
    if (p.places)
        return put_picked(&p, to, own, bytes, e);
    strided_copy((char *)to + p.offset * bytes, p.strides, from, strides, p.ndim, p.shape, bytes,
                 false);
    return KV_OK;
}

/* ---- Picking --------------------------------------------------------------------------------- */

/* Ids and masks become places block by block, on several threads: each is a pass over memory that
 * is followed by another one, of the elements. */

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

static int place_part(void *arg, int64_t chunk, int worker, kv_err *e)
{
    id_job *j = arg;
    int64_t end = at_most(j->n, (chunk + 1) * STOP_EVERY);
    (void)worker, (void)e;
    for (int64_t i = chunk * STOP_EVERY, n; i < end; i += n) {
        n = at_most(end - i, 512);
        if (place_some(j, i, n))
            continue;
        while (place_some(j, i, 1))
            i++;
        int64_t bad = j->bad;
        while (i < bad && !atomic_compare_exchange_weak(&j->bad, &bad, i))
            ;
        break;
    }
    return KV_OK;
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
    own_array *made = NULL;
    const void *from;
    void *to;
    TRY(kv_array_read(ids, &from, e));
    TRY(array_make(&made, &to, KV_INT64, kv_array_ndim(ids), kv_array_shape(ids),
                   (kv_ctx){KV_CPU, 0}, e));
    id_job j = {.ids = from,
                .dtype = kv_array_dtype(ids),
                .n = kv_array_size(ids),
                .len = len,
                .stride = stride,
                .to = to,
                .bad = kv_array_size(ids)};
    TRY(pool_each(count_parts(j.n), place_part, &j, e));
    return j.bad < j.n ? bad_id(&j, axis, e) : array_hand_out(places, &made);
}

/* ---- Masks ---- */

typedef struct mask_job {
    const unsigned char *mask;
    int64_t n, stride, *begin; /* begin[chunk]: how many elements the chunks before hold */
    int64_t *to;               /* NULL while they are counted */
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

static int mask_part(void *arg, int64_t chunk, int worker, kv_err *e)
{
    mask_job *j = arg;
    int64_t from = chunk * STOP_EVERY, n = at_most(j->n - from, STOP_EVERY);
    (void)worker, (void)e;
    if (!j->to)
        j->begin[chunk + 1] = count_mask(j->mask + from, n);
    else
        place_mask(j->to + j->begin[chunk], j->mask + from, from, n, j->stride);
    return KV_OK;
}

int pick_mask(kv_array **places, kv_array *mask, int64_t stride, kv_err *e)
{
    const void *from;
    void *to;
    own_array *made = NULL, *truth = NULL;
    TRY(arrange_as(&truth, mask, KV_BOOL, e));
    int64_t n = kv_array_size(truth), parts = count_parts(n);
    own_mem int64_t *begin = mem_zalloc(parts + 1, sizeof *begin, e);
    if (!begin)
        return KV_E_MEMORY;
    TRY(kv_array_read(truth, &from, e));
    mask_job j = {.n = n, .stride = stride, .begin = begin, .mask = from};
    TRY(pool_each(parts, mask_part, &j, e));
    for (int64_t i = 0; i < parts; i++)
        begin[i + 1] += begin[i];
    TRY(array_make(&made, &to, KV_INT64, 1, &begin[parts], (kv_ctx){KV_CPU, 0}, e));
    j.to = to;
    TRY(pool_each(parts, mask_part, &j, e));
    return array_hand_out(places, &made);
}

/* ---- Several together ---- */

static int add(kv_array *to, kv_array *from, kv_err *e)
{
    void *data;
    const void *more;
    TRY(kv_array_write(to, &data, e));
    TRY(kv_array_read(from, &more, e));
    int64_t *x = data;
    const int64_t *y = more;
    for (int64_t i = 0; i < kv_array_size(to); i++) {
        TRY(stop_check_at(i, e));
        x[i] += y[i];
    }
    return KV_OK;
}

int pick_join(kv_array **places, kv_array *more, kv_err *e)
{
    own_array *taken = more, *one = NULL, *two = NULL;
    int ndim;
    int64_t shape[KV_MAX_NDIM];
    if (!*places)
        return array_hand_out(places, &taken);
    int rc = arrange_common(&ndim, shape, *places, more, e);
    if (rc)
        return kv_err_hint(e, "index arrays pair up, element by element: x[[0, 1], [2, 3]]"), rc;
    TRY(arrange_broadcast(&one, *places, ndim, shape, e));
    TRY(arrange_broadcast(&two, more, ndim, shape, e));
    TRY(add(one, two, e));
    kv_array_unref(*places);
    return array_hand_out(places, &one);
}

int pick_index(kv_array **out, kv_array *places, int64_t len, int64_t stride, kv_err *e)
{
    const void *from;
    void *to;
    own_array *made = NULL;
    TRY(kv_array_read(places, &from, e));
    TRY(array_make(&made, &to, KV_INT64, kv_array_ndim(places), kv_array_shape(places),
                   kv_array_ctx(places), e));
    const int64_t *x = from;
    int64_t *y = to;
    for (int64_t i = 0; i < kv_array_size(places); i++) {
        TRY(stop_check_at(i, e));
        y[i] = x[i] / stride % len;
    }
    return array_hand_out(out, &made);
}
