/* Cutting arrays into parts: how many parts a key gets, and where each begins. */
#include "distributed/place.h"

#include <string.h>

/* Elements that begin and end where codes of compressed pushes do, and lines of most dtypes. */
enum { ALIGNED = 16 };

static place cut(int64_t size, int64_t step, int64_t row)
{
    place p = {.size = size, .step = step > 0 ? step : 1, .row = row, .nparts = 1};
    if (size > p.step)
        p.nparts = (int32_t)((size + p.step - 1) / p.step);
    return p;
}

place place_in_records(int64_t size, kv_dtype dtype)
{
    return cut(size, LINK_PAYLOAD / kv_dtype_bytes(dtype), 0);
}

/* The fewest rows of which a part may consist. */
static int64_t fewest_rows(int64_t row)
{
    int64_t n = ALIGNED;
    while (n > 1 && n / 2 * row % ALIGNED == 0)
        n /= 2;
    return n;
}

place place_new(kv_dtype dtype, kv_storage storage, int ndim, const int64_t *shape, place_need need,
                int servers)
{
    int64_t row = 1, each = kv_dtype_bytes(dtype);
    for (int i = 1; i < ndim; i++)
        row *= shape[i];
    int64_t size = ndim ? shape[0] * row : 1;
    if (need == PLACE_WHOLE || size == 0)
        return cut(size, size, row);
    int64_t some = fewest_rows(row);
    if (storage == KV_ROW_SPARSE) {
        int64_t share = servers > 1 && size >= PLACE_SPREAD ? servers : 1;
        int64_t rows = (shape[0] + share - 1) / share;
        return cut(size, (rows + some - 1) / some * some * row, row);
    }
    int64_t rows = LINK_PAYLOAD / each / row / some * some;
    if (rows == 0)
        rows = some;
    if (rows * row * each <= PLACE_MOST)
        return cut(size, rows * row, row);
    return need == PLACE_BY_ROWS ? cut(size, size, row) : place_in_records(size, dtype);
}

bool place_is_valid(const place *p, kv_storage storage, int ndim, const int64_t *shape, int servers)
{
    int64_t row = 1;
    for (int i = 1; i < ndim; i++)
        row *= shape[i];
    int64_t size = ndim ? shape[0] * row : 1;
    if (p->size != size || p->step < 1 || p->nparts < 1 || p->first < 0 ||
        p->first > INT32_MAX - p->nparts || p->server < -servers || p->server >= servers)
        return false;
    if (p->nparts == 1)
        return size <= p->step && (p->row == 0 || p->row == row);
    bool cuts_rows = p->row == 0 && storage != KV_ROW_SPARSE;
    return p->nparts == (size - 1) / p->step + 1 && p->step % ALIGNED == 0 &&
           (cuts_rows || (p->row == row && p->step % row == 0));
}

int place_shape(const place *p, int64_t count, int ndim, const int64_t *shape,
                int64_t out[KV_MAX_NDIM])
{
    memcpy(out, shape, (size_t)ndim * sizeof *out);
    if (p->nparts == 1)
        return ndim;
    out[0] = p->row ? count / p->row : count;
    return p->row ? ndim : 1;
}
