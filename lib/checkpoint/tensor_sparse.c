/* Sparse tensors become dense, block by block. */
#include "checkpoint/tensor_sparse.h"

#include <string.h>

#include "base/file.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/tensor_reader.h"

enum { SOME = 1 << 13, SOME_BYTES = 1 << 16 };

typedef struct sparse_room {
    char block[TENSOR_BLOCK];
    char values[SOME_BYTES]; /* several, as they are stored */
    int64_t indices[SOME];
    int64_t starts[SOME + 1]; /* of rows of csr: the number of their first value */
} sparse_room;

/* A tensor that is read. */
typedef struct reading {
    sparse_room *room;
    const tensor_info *t;
    const input *in;
    int64_t width;  /* bytes of a row, or of an element of csr */
    int64_t starts; /* of csr: where the starts of rows begin in the file */
    int64_t at;     /* where the indices begin: rows, or columns */
} reading;

static bool is_csr(const tensor_info *t)
{
    return t->form & TENSOR_CSR;
}

static int read_numbers(const reading *g, int64_t *to, int64_t begin, int64_t first, int64_t n,
                        kv_err *e)
{
    return input_read(g->in, to, begin + first * 8, n * 8, e);
}

static int wrong(const reading *g, const char *what, int64_t number, int64_t index, kv_err *e)
{
    return file_bad(e, KV_E_FORMAT, g->in->name,
                    "tensor \"%.*s\": %s %lld is %lld, out of range or order", SHOWN(g->t->name),
                    what, (long long)number, (long long)index);
}

/* Checks n indices from `begin` in the file on, which are first <= x < end and rise by `rise` at
 * least. */
static int check_indices(const reading *g, const char *what, int64_t begin, int64_t n,
                         int64_t first, int64_t end, int64_t rise, kv_err *e)
{
    int64_t *x = g->room->indices;
    int rc = KV_OK;
    for (int64_t i = 0, some; i < n && !rc; i += some) {
        some = n - i < SOME ? n - i : SOME;
        if ((rc = stop_check(e)) || (rc = read_numbers(g, x, begin, i, some, e)))
            break;
        for (int64_t k = 0; k < some; k++) {
            if (x[k] < first || x[k] >= end)
                return wrong(g, what, i + k, x[k], e);
            first = rise < 0 ? first : x[k] + rise;
        }
    }
    return rc;
}

static int check_all(const reading *g, kv_err *e)
{
    const tensor_info *t = g->t;
    int64_t n = t->shape[0] + 1, ends[2];
    if (t->first == 0)
        return KV_OK;
    if (!is_csr(t))
        return check_indices(g, "row", g->at, t->first, 0, t->shape[0], 1, e);
    int rc = check_indices(g, "the start of row", g->starts, n, 0, t->first + 1, 0, e);
    if (!rc && !(rc = read_numbers(g, ends, g->starts, 0, 1, e)) &&
        !(rc = read_numbers(g, ends + 1, g->starts, n - 1, 1, e)) &&
        (ends[0] != 0 || ends[1] != t->first))
        return ends[0] ? wrong(g, "the start of row", 0, ends[0], e)
                       : wrong(g, "the end of row", n - 2, ends[1], e);
    return rc ? rc : check_indices(g, "column", g->at, t->first, 0, t->shape[1], -1, e);
}

/* The number of the first stored row that is not before `row`. */
static int find_row(const reading *g, int64_t row, int64_t *out, kv_err *e)
{
    int64_t low = 0, high = g->t->first, x;
    int rc = KV_OK;
    while (low < high && !rc) {
        int64_t middle = low + (high - low) / 2;
        if ((rc = read_numbers(g, &x, g->at, middle, 1, e)))
            break;
        if (x < row)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
    return rc;
}

/* Bytes at to at + n of a tensor of rows. */
static int fill_rows(const reading *g, int64_t at, int64_t n, kv_err *e)
{
    sparse_room *room = g->room;
    int64_t most = SOME_BYTES / g->width, k;
    int rc = find_row(g, at / g->width, &k, e);
    most = most < 1 ? 1 : most > SOME ? SOME : most;
    for (int64_t some; k < g->t->first && !rc; k += some) {
        some = g->t->first - k < most ? g->t->first - k : most;
        if ((rc = stop_check(e)) || (rc = read_numbers(g, room->indices, g->at, k, some, e)) ||
            (some > 1 && (rc = input_read(g->in, room->values, g->t->offset + k * g->width,
                                          some * g->width, e))))
            break;
        for (int64_t j = 0; j < some && !rc; j++) {
            if (room->indices[j] < 0 || room->indices[j] >= g->t->shape[0])
                return input_changed(g->in, e);
            int64_t begin = room->indices[j] * g->width, end = begin + g->width;
            int64_t from = begin > at ? begin : at, to = end < at + n ? end : at + n;
            if (from >= at + n)
                return KV_OK;
            if (from < to && some > 1)
                memcpy(room->block + (from - at), room->values + j * g->width + (from - begin),
                       (size_t)(to - from));
            else if (from < to)
                rc = input_read(g->in, room->block + (from - at),
                                g->t->offset + k * g->width + (from - begin), to - from, e);
        }
    }
    return rc;
}

/* Puts values first to last - 1 of csr, which stand in `rows` rows from `row` on, into the block of
 * n elements from number `at` on. */
static int put_values(const reading *g, int64_t row, int64_t rows, int64_t at, int64_t n, kv_err *e)
{
    sparse_room *room = g->room;
    int64_t k = room->starts[0], last = room->starts[rows], r = 0, some;
    int rc = KV_OK;
    for (; k < last && !rc; k += some) {
        some = last - k < SOME ? last - k : SOME;
        if ((rc = stop_check(e)) || (rc = read_numbers(g, room->indices, g->at, k, some, e)) ||
            (rc =
                 input_read(g->in, room->values, g->t->offset + k * g->width, some * g->width, e)))
            break;
        for (int64_t j = 0; j < some; j++) {
            while (r < rows - 1 && k + j >= room->starts[r + 1])
                r++;
            int64_t place = (row + r) * g->t->shape[1] + room->indices[j] - at;
            if (place >= 0 && place < n)
                memcpy(room->block + place * g->width, room->values + j * g->width,
                       (size_t)g->width);
        }
    }
    return rc;
}

/* Elements at to at + n of csr. */
static int fill_csr(const reading *g, int64_t at, int64_t n, kv_err *e)
{
    int64_t columns = g->t->shape[1], end = (at + n - 1) / columns + 1, some;
    int rc = KV_OK;
    for (int64_t row = at / columns; row < end && g->t->first > 0 && !rc; row += some) {
        some = end - row < SOME ? end - row : SOME;
        rc = read_numbers(g, g->room->starts, g->starts, row, some + 1, e);
        rc = rc ? rc : put_values(g, row, some, at, n, e);
    }
    return rc;
}

int tensor_sparse_read(tensor_sparse *s, const checkpoint *c, const void **data, int64_t i,
                       int64_t at, int64_t n, kv_err *e)
{
    const tensor_info *t = &c->tensors[i];
    reading g = {.t = t, .in = &c->files[t->file]};
    g.width = is_csr(t) ? tensor_type_run_bytes(t->type) : t->bytes / t->shape[0];
    g.at = t->offset + t->stored_bytes - 8 * t->first;
    g.starts = g.at - 8 * (t->shape[0] + 1);
    if (!s->room && !(s->room = mem_alloc(1, sizeof *s->room, e)))
        return KV_E_MEMORY;
    g.room = s->room;
    int rc = s->checked == i + 1 ? KV_OK : check_all(&g, e);
    if (rc)
        return rc;
    s->checked = i + 1;
    memset(s->room->block, 0, (size_t)n);
    *data = s->room->block;
    return is_csr(t) ? fill_csr(&g, at / g.width, n / g.width, e) : fill_rows(&g, at, n, e);
}

void tensor_sparse_release(tensor_sparse *s)
{
    mem_free(s->room);
}
