/* Copying between layouts.
 *
 * Axes that follow each other without a gap in both layouts are joined to one first, so that the
 * inner loop is as long as it can be: a copy of whole rows becomes memcpy. What remains is walked
 * like an odometer, the last axis fastest. When the source jumps along the last axis, as in a
 * transpose, the last two axes are walked in square tiles, so that what is read stays in the cache
 * until its neighbours are needed.
 */
#include "array/strided.h"

#include <string.h>

#include "base/stop.h"
#include "kv_array.h"

/* Rows and columns of a tile: 32 cache lines of each side fit the L1 cache. */
enum { TILE = 32 };

typedef struct layout {
    int ndim;
    int64_t bytes; /* of an element */
    int64_t shape[KV_MAX_NDIM], dst[KV_MAX_NDIM], src[KV_MAX_NDIM];
    bool may_stop;
    int64_t copied; /* elements since stop_asked was asked */
} layout;

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
static bool simplify(layout *l, const int64_t *dst, const int64_t *src, int ndim,
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

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns true if the copy goes on after n more elements, false if it shall stop early. */
static bool goes_on(layout *l, int64_t n)
{
    l->copied += n;
    if (l->copied < STOP_EVERY)
        return true;
    l->copied = 0;
    return !(l->may_stop && stop_asked());
}

/* The last axis. */
static bool copy_line(char *dst, const char *src, layout *l)
{
    int c = l->ndim - 1;
    for (int64_t i = 0, n; i < l->shape[c]; i += n) {
        n = min64(STOP_EVERY, l->shape[c] - i);
        copy_run(dst + i * l->dst[c] * l->bytes, l->dst[c], src + i * l->src[c] * l->bytes,
                 l->src[c], n, l->bytes);
        if (!goes_on(l, n))
            return false;
    }
    return true;
}

/* The last two axes, where the source jumps along the last. */
static bool copy_tiles(char *dst, const char *src, layout *l)
{
    int r = l->ndim - 2, c = l->ndim - 1;
    for (int64_t i0 = 0; i0 < l->shape[r]; i0 += TILE) {
        for (int64_t j0 = 0; j0 < l->shape[c]; j0 += TILE) {
            int64_t end = min64(i0 + TILE, l->shape[r]), n = min64(TILE, l->shape[c] - j0);
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
    layout l = {.bytes = bytes, .may_stop = may_stop};
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
