/* Blocks of tensors: from where they stand, inflated, in the order of rows, little-endian. */
#include "checkpoint/tensor_reader.h"

#include <string.h>

#include "array/arrange.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/file_window.h"
#include "checkpoint/input.h"
#include "checkpoint/tensor_codec.h"
#include "checkpoint/zip.h"

/* ---- Sparse tensors -------------------------------------------------------------------------- */

/* The data of sparse tensors, as the dense ones that they mean: zeros but where a number is stored.
 *
 *   TENSOR_ROWS: t->first rows of values; then the index of each row, ascending
 *   TENSOR_CSR:  t->first values; for each row the number of the values before it, and that of all
 *                of them; then the column of each value
 *
 * Indices are int64. Source: row_sparse and csr of MXNet's include/mxnet/ndarray.h. */

/* What one reader needs for it. All zero is nothing. */
typedef struct tensor_sparse {
    int64_t checked; /* the tensor + 1 whose indices were found right */
    struct sparse_room *room;
} tensor_sparse;

enum { SOME = 1 << 13, SOME_BYTES = 1 << 16 };

typedef struct sparse_room {
    char block[TENSOR_BLOCK];
    char values[SOME_BYTES]; /* several, as they are stored */
    int64_t indices[SOME];
    int64_t starts[SOME + 1]; /* of rows of csr: the number of their first value */
} sparse_room;

/* A tensor that is read. */
typedef struct sparse_reading {
    sparse_room *room;
    const tensor_info *t;
    const input *in;
    int64_t width;  /* bytes of a row, or of an element of csr */
    int64_t starts; /* of csr: where the starts of rows begin in the file */
    int64_t at;     /* where the indices begin: rows, or columns */
} sparse_reading;

static bool is_csr(const tensor_info *t)
{
    return t->form & TENSOR_CSR;
}

static int read_numbers(const sparse_reading *g, int64_t *to, int64_t begin, int64_t first,
                        int64_t n, kv_err *e)
{
    return input_read(g->in, to, begin + first * 8, n * 8, e);
}

static int wrong(const sparse_reading *g, const char *what, int64_t number, int64_t index,
                 kv_err *e)
{
    return file_bad(e, KV_E_FORMAT, g->in->name,
                    "tensor \"%.*s\": %s %lld is %lld, out of range or order", SHOWN(g->t->name),
                    what, (long long)number, (long long)index);
}

/* Checks n indices from `begin` in the file on, which are 0 <= x < end and rise by `rise` at least;
 * -1: they may fall. */
static int check_indices(const sparse_reading *g, const char *what, int64_t begin, int64_t n,
                         int64_t end, int64_t rise, kv_err *e)
{
    int64_t *x = g->room->indices, first = 0;
    for (int64_t i = 0, some; i < n; i += some) {
        some = at_most(n - i, SOME);
        TRY(stop_check(e));
        TRY(read_numbers(g, x, begin, i, some, e));
        for (int64_t k = 0; k < some; k++) {
            if (x[k] < first || x[k] >= end)
                return wrong(g, what, i + k, x[k], e);
            first = rise < 0 ? first : x[k] + rise;
        }
    }
    return KV_OK;
}

static int check_all(const sparse_reading *g, kv_err *e)
{
    const tensor_info *t = g->t;
    int64_t n = t->shape[0] + 1, ends[2];
    if (t->first == 0)
        return KV_OK;
    if (!is_csr(t))
        return check_indices(g, "row", g->at, t->first, t->shape[0], 1, e);
    TRY(check_indices(g, "the start of row", g->starts, n, t->first + 1, 0, e));
    TRY(read_numbers(g, ends, g->starts, 0, 1, e));
    TRY(read_numbers(g, ends + 1, g->starts, n - 1, 1, e));
    if (ends[0] != 0 || ends[1] != t->first)
        return ends[0] ? wrong(g, "the start of row", 0, ends[0], e)
                       : wrong(g, "the end of row", n - 2, ends[1], e);
    return check_indices(g, "column", g->at, t->first, t->shape[1], -1, e);
}

/* The number of the first stored row that is not before `row`. */
static int find_row(const sparse_reading *g, int64_t row, int64_t *out, kv_err *e)
{
    int64_t low = 0, high = g->t->first, x;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        TRY(read_numbers(g, &x, g->at, middle, 1, e));
        if (x < row)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
    return KV_OK;
}

/* Puts values k to last - 1 into the block of n bytes from byte `at` on. Those of csr stand in
 * `rows` rows from `row` on; a tensor of rows has none. Of a value that is long no more is read
 * than the block takes. */
static int put_values(const sparse_reading *g, int64_t k, int64_t last, int64_t row, int64_t rows,
                      int64_t at, int64_t n, kv_err *e)
{
    sparse_room *room = g->room;
    int64_t columns = is_csr(g->t) ? g->t->shape[1] : 0, r = 0;
    int64_t most = g->width > SOME_BYTES ? 1 : at_most(SOME_BYTES / g->width, SOME);
    for (int64_t some; k < last; k += some) {
        some = at_most(last - k, most);
        TRY(stop_check(e));
        TRY(read_numbers(g, room->indices, g->at, k, some, e));
        if (some > 1)
            TRY(input_read(g->in, room->values, g->t->offset + k * g->width, some * g->width, e));
        for (int64_t j = 0; j < some; j++) {
            int64_t index = room->indices[j];
            if (index < 0 || index >= (columns ? columns : g->t->shape[0]))
                return input_changed(g->in, e);
            while (r < rows - 1 && k + j >= room->starts[r + 1])
                r++;
            int64_t begin = ((row + r) * columns + index) * g->width;
            int64_t from = begin > at ? begin : at, to = at_most(begin + g->width, at + n);
            if (from < to && some > 1)
                memcpy(room->block + (from - at), room->values + j * g->width + (from - begin),
                       (size_t)(to - from));
            else if (from < to)
                TRY(input_read(g->in, room->block + (from - at),
                               g->t->offset + k * g->width + (from - begin), to - from, e));
        }
    }
    return KV_OK;
}

/* Bytes at to at + n of a sparse tensor. */
static int fill(const sparse_reading *g, int64_t at, int64_t n, kv_err *e)
{
    int64_t row_bytes = g->t->bytes / g->t->shape[0], row = at / row_bytes;
    int64_t end = (at + n - 1) / row_bytes + 1, k, last;
    if (!is_csr(g->t)) {
        TRY(find_row(g, row, &k, e));
        TRY(find_row(g, end, &last, e));
        return put_values(g, k, last, 0, 0, at, n, e);
    }
    for (int64_t some; row < end && g->t->first > 0; row += some) {
        const int64_t *starts = g->room->starts;
        some = at_most(end - row, SOME);
        TRY(read_numbers(g, g->room->starts, g->starts, row, some + 1, e));
        TRY(put_values(g, starts[0], starts[some], row, some, at, n, e));
    }
    return KV_OK;
}

/* tensor_read of a sparse one: all its indices are checked before its first block is given out. */
static int tensor_sparse_read(tensor_sparse *s, const checkpoint *c, const void **data, int64_t i,
                              int64_t at, int64_t n, kv_err *e)
{
    const tensor_info *t = &c->tensors[i];
    sparse_reading g = {.t = t, .in = &c->files[t->file]};
    g.width = is_csr(t) ? tensor_type_run_bytes(t->type) : t->bytes / t->shape[0];
    g.at = t->offset + t->stored_bytes - 8 * t->first;
    g.starts = g.at - 8 * (t->shape[0] + 1);
    if (!s->room && !(s->room = mem_alloc(1, sizeof *s->room, e)))
        return KV_E_MEMORY;
    g.room = s->room;
    TRY(s->checked == i + 1 ? KV_OK : check_all(&g, e));
    s->checked = i + 1;
    memset(s->room->block, 0, (size_t)n);
    *data = s->room->block;
    return fill(&g, at, n, e);
}

/* ---- Readers --------------------------------------------------------------------------------- */

/* Where it is in a deflated member. All zero is nowhere. */
typedef struct tensor_deflated {
    inflate_stream *from;
    int64_t tensor;     /* its number + 1 */
    int64_t begin, end; /* of the data in block */
    uint32_t crc;       /* of the data up to `end` */
    char *block;
    buf name; /* for messages */
} tensor_deflated;

/* What it needs for codes. All zero is nothing. */
typedef struct tensor_decoded {
    float *numbers; /* the block that was decoded last */
    int64_t numbers_cap;
    char *matrix; /* codes of a whole matrix whose axes are swapped, then its scales */
    int64_t matrix_cap, matrix_of, matrix_tensor; /* its number, and that of the tensor + 1 */
} tensor_decoded;

/* What is turned at a time, small enough for the caches. */
enum { TURNED_BYTES = 1 << 18 };

/* Elements that do not follow each other in the file, gathered. */
typedef struct rows_block {
    int64_t of; /* the tensor + 1; 0: none */
    int64_t at, bytes;
    char *data;
    int64_t cap;
} rows_block;

static void rows_release(rows_block *b)
{
    mem_free(b->data);
    *b = (rows_block){0};
}

struct tensor_reader {
    const checkpoint *c;
    int64_t window_bytes;
    file_window window;
    npz_sum_run run; /* of the checksum of what was read last */
    tensor_deflated deflated;
    int64_t spread;          /* the tensor + 1 whose elements are read one by one */
    input inflated;          /* all of it, where it is deflated */
    rows_block rows;         /* of such a tensor */
    char *turned;            /* a part of that, in the order of the file */
    int64_t ahead_of, ahead; /* the tensor + 1 that is read in order, and up to which byte */
    char *swapped;           /* a block */
    tensor_sparse sparse;
    tensor_decoded decoded;
    tensor_reader *scales; /* of what is decoded */
};

/* ---- Deflated -------------------------------------------------------------------------------- */

/* Inflates the next n bytes into the block. */
static int inflate_next(tensor_deflated *d, int64_t n, kv_err *e)
{
    int64_t got;
    TRY(inflate_read(d->from, d->block, n, &got, e));
    return got >= n ? KV_OK
                    : file_bad(e, KV_E_FORMAT, buf_text(&d->name),
                               "its compressed data end too early: %lld bytes are missing",
                               (long long)(n - got));
}

/* Goes to the begin of tensor i, behind its header. */
static int restart(tensor_deflated *d, const checkpoint *c, int64_t i, kv_err *e)
{
    const tensor_info *t = &c->tensors[i];
    const input *in = &c->files[t->file];
    int64_t header = c->sums[t->member - 1].header_bytes;
    d->tensor = d->begin = d->end = 0;
    d->crc = 0;
    buf_clear(&d->name);
    buf_printf(&d->name, "%s: tensor \"%.*s\"", in->name, SHOWN(t->name));
    TRY(buf_check(&d->name, e));
    if (!d->block && !(d->block = mem_alloc(TENSOR_BLOCK, 1, e)))
        return KV_E_MEMORY;
    TRY(d->from ? KV_OK : inflate_new(&d->from, e));
    inflate_begin(d->from, in, t->offset, t->stored_bytes, buf_text(&d->name));
    for (int64_t n; header > 0; header -= n) {
        n = at_most(header, TENSOR_BLOCK);
        TRY(inflate_next(d, n, e));
    }
    d->tensor = i + 1;
    return KV_OK;
}

/* Checks that nothing follows the last byte, and the checksum. */
static int check_end(const tensor_deflated *d, const npz_sum *sum, kv_err *e)
{
    char extra;
    int64_t got;
    TRY(inflate_read(d->from, &extra, 1, &got, e));
    if (got)
        return file_bad(e, KV_E_FORMAT, buf_text(&d->name),
                        "its compressed data are more than its header asks for");
    return npz_sum_right(sum, d->crc) ? KV_OK
                                      : file_bad(e, KV_E_FORMAT, buf_text(&d->name), NPZ_SUM_WRONG);
}

/* The next n bytes of data. */
static int go_on(tensor_deflated *d, const checkpoint *c, int64_t n, kv_err *e)
{
    const npz_sum *sum = &c->sums[c->tensors[d->tensor - 1].member - 1];
    int rc = inflate_next(d, n, e);
    d->begin = d->end;
    d->end += n;
    if (!rc)
        d->crc = inflate_crc(d->crc, d->block, n);
    if (!rc && d->end == sum->bytes)
        rc = check_end(d, sum, e);
    if (rc)
        d->tensor = 0;
    return rc;
}

/* The last bytes are given out once they are known to be the last, and the checksum to be right. */
static int read_deflated(tensor_deflated *d, const checkpoint *c, const void **data, int64_t i,
                         int64_t at, int64_t n, kv_err *e)
{
    if (d->tensor == i + 1 && at >= d->begin && at + n <= d->end) {
        *data = d->block + (at - d->begin);
        return KV_OK;
    }
    if (d->tensor != i + 1 || at < d->end)
        TRY(restart(d, c, i, e));
    while (d->end < at) {
        TRY(stop_check(e));
        TRY(go_on(d, c, at_most(at - d->end, TENSOR_BLOCK), e));
    }
    TRY(go_on(d, c, n, e));
    *data = d->block;
    return KV_OK;
}

/* ---- Codes ----------------------------------------------------------------------------------- */

/* Reads stored bytes: of tensor i of the reader's own checkpoint, or if `scaled` is not NULL, of
 * that one. Scales have a window of their own: data of the one live while data of the other are
 * read. */
static int fetch(tensor_reader *r, const checkpoint *scaled, const void **data, int64_t i,
                 int64_t at, int64_t n, kv_err *e)
{
    if (scaled && r->scales && r->scales->c != scaled) {
        tensor_reader_free(r->scales);
        r->scales = NULL;
    }
    if (scaled && !r->scales)
        TRY(tensor_reader_new(&r->scales, scaled, TENSOR_BLOCK, e));
    return tensor_read(scaled ? r->scales : r, data, i, at, n, e);
}

/* A tensor that is read. */
typedef struct reading {
    tensor_reader *r;
    const tensor_values *v;
    int64_t i;
} reading;

/* The numbers of a row that are scaled together at most: their scales stay in the cache. */
enum { SEGMENT = 4096 };

/* The codes of a matrix whose axes are swapped are kept while its numbers are read. Those of
 * gpt-oss have 8 MB. */
#define MATRIX_MOST ((int64_t)64 << 20)

/* n scales from number `at` on. */
static int read_scales(const reading *g, float *out, int64_t at, int64_t n, kv_err *e)
{
    const tensor_values *v = g->v;
    const void *data;
    TRY(fetch(g->r, v->scaled, &data, v->scale, tensor_type_bytes(v->scale_type, at),
              tensor_type_bytes(v->scale_type, n), e));
    tensor_decode_f32(out, v->scale_type, data, n);
    for (int64_t i = 0; i < n && v->has_global; i++)
        out[i] = v->divides ? out[i] / v->global : out[i] * v->global;
    return KV_OK;
}

/* Multiplies numbers first to last - 1 of a tensor by their scales. */
static int scale(const reading *g, float *x, int64_t first, int64_t last, kv_err *e)
{
    const tensor_values *v = g->v;
    float by[SEGMENT + 1];
    int64_t known = -1, known_n = 0;
    for (int64_t n; first < last; first += n, x += n) {
        int64_t row = first / v->width, k = first % v->width;
        int64_t left = at_most(v->width - k, last - first);
        n = at_most(left, SEGMENT);
        int64_t at =
            row / v->height * v->a_matrix + row % v->height / v->rows * v->a_row + k / v->columns;
        int64_t nscales = (k + n - 1) / v->columns - k / v->columns + 1;
        if (at != known || nscales != known_n) {
            TRY(read_scales(g, by, at, nscales, e));
            known = at;
            known_n = nscales;
        }
        for (int64_t i = 0, j = 0; i < n; j++) {
            int64_t rest = v->columns - (k + i) % v->columns, end = rest < n - i ? i + rest : n;
            for (; i < end; i++)
                x[i] *= by[j];
        }
    }
    return KV_OK;
}

/* Reads the codes of a whole matrix, and behind them its scales. */
static int read_matrix(const reading *g, int64_t matrix, kv_err *e)
{
    const tensor_values *v = g->v;
    tensor_decoded *room = &g->r->decoded;
    int64_t codes = v->height * (v->width / 2), exponents = v->a_matrix, n;
    room->matrix_tensor = 0;
    if (codes > MATRIX_MOST)
        return file_bad(e, KV_E_UNSUPPORTED, g->r->c->name,
                        "\"%.*s\" has %lld bytes of codes in a matrix, and %lld can be read",
                        SHOWN(g->r->c->tensors[g->i].name), (long long)codes,
                        (long long)MATRIX_MOST);
    TRY(mem_grow(&room->matrix, &room->matrix_cap, codes + exponents, 1, e));
    for (int64_t at = 0; at < codes + exponents; at += n) {
        bool is_codes = at < codes;
        int64_t from = is_codes ? at : at - codes, all = is_codes ? codes : exponents;
        const void *data;
        n = at_most(all - from, TENSOR_BLOCK);
        TRY(fetch(g->r, is_codes ? NULL : v->scaled, &data, is_codes ? v->codes : v->scale,
                  matrix * all + from, n, e));
        memcpy(room->matrix + at, data, (size_t)n);
        TRY(stop_check(e));
    }
    room->matrix_tensor = g->i + 1;
    room->matrix_of = matrix;
    return KV_OK;
}

/* Numbers first to last - 1 of a tensor whose rows are columns of the codes. */
static int read_swapped(const reading *g, float *out, int64_t first, int64_t last, kv_err *e)
{
    const tensor_values *v = g->v;
    const tensor_decoded *room = &g->r->decoded;
    int64_t numbers = v->height * v->width, pitch = v->width / 2, groups = v->a_row;
    for (; first < last;) {
        int64_t matrix = first / numbers, k = first % numbers / v->height, row = first % v->height;
        int64_t end = v->height - row < last - first ? v->height : row + last - first;
        if (room->matrix_tensor != g->i + 1 || room->matrix_of != matrix)
            TRY(read_matrix(g, matrix, e));
        const uint8_t *codes = (const uint8_t *)room->matrix + k / 2;
        const uint8_t *exponents =
            (const uint8_t *)room->matrix + v->height * pitch + k / v->columns;
        for (; row < end; row++, first++) {
            uint8_t c = codes[row * pitch] >> 4 * (k % 2) & 15;
            float x[2], s;
            tensor_decode_f32(x, TENSOR_F4, &c, 1);
            tensor_decode_f32(&s, TENSOR_F8_E8M0, &exponents[row * groups], 1);
            *out++ = x[0] * s;
        }
    }
    return KV_OK;
}

/* Numbers first to last - 1, where codes and numbers have one order. */
static int read_ordered(const reading *g, float *out, int64_t first, int64_t last, kv_err *e)
{
    const tensor_values *v = g->v;
    const void *data;
    TRY(fetch(g->r, NULL, &data, v->codes, tensor_type_bytes(v->type, first),
              tensor_type_bytes(v->type, last - first), e));
    if (gguf_blocks_can(v->type)) {
        gguf_blocks_decode(out, v->type, data, (last - first) / tensor_type_run(v->type));
        return KV_OK;
    }
    tensor_decode_f32(out, v->type, data, last - first);
    return v->scaled ? scale(g, out, first, last, e) : KV_OK;
}

/* Errors: those of tensor_read; unsupported: a matrix that is too large to swap its axes. */
static int read_decoded(tensor_reader *r, const void **data, int64_t i, int64_t at, int64_t n,
                        kv_err *e)
{
    tensor_decoded *d = &r->decoded;
    const tensor_values *v = &r->c->values[r->c->tensors[i].values - 1];
    const reading g = {r, v, i};
    int64_t run = v->swapped ? 1 : tensor_type_run(v->type), size = sizeof *d->numbers;
    int64_t first = at / size, last = (at + n) / size, begin = first - first % run;
    int64_t end = last % run ? last + run - last % run : last;
    TRY(mem_grow(&d->numbers, &d->numbers_cap, end - begin, sizeof *d->numbers, e));
    *data = d->numbers + (first - begin);
    return v->swapped ? read_swapped(&g, d->numbers, begin, end, e)
                      : read_ordered(&g, d->numbers, begin, end, e);
}

/* ---- Reading --------------------------------------------------------------------------------- */

int tensor_reader_new(tensor_reader **out, const checkpoint *c, int64_t window_bytes, kv_err *e)
{
    tensor_reader *r = mem_zalloc(1, sizeof *r, e);
    if (!r)
        return KV_E_MEMORY;
    r->c = c;
    r->inflated.fd = -1;
    r->window_bytes = window_bytes > 0 && window_bytes < TENSOR_BLOCK ? TENSOR_BLOCK : window_bytes;
    *out = r;
    return KV_OK;
}

void tensor_reader_free(tensor_reader *r)
{
    if (!r)
        return;
    file_window_close(&r->window);
    inflate_free(r->deflated.from);
    mem_free(r->deflated.block);
    buf_release(&r->deflated.name);
    input_close(&r->inflated);
    rows_release(&r->rows);
    mem_free(r->turned);
    mem_free(r->swapped);
    mem_free(r->sparse.room);
    mem_free(r->decoded.numbers);
    mem_free(r->decoded.matrix);
    tensor_reader_free(r->scales);
    mem_free(r);
}

void tensor_reader_map_always(tensor_reader *r)
{
    r->window.always = true;
}

const checkpoint *tensor_reader_of(const tensor_reader *r)
{
    return r->c;
}

/* n bytes of a file as they stand there. */
static int read_plain(tensor_reader *r, const void **data, int file, int64_t at, int64_t n,
                      kv_err *e)
{
    const input *in = &r->c->files[file];
    if (in->fd < 0) {
        *data = in->memory + at;
        return KV_OK;
    }
    return file_window_move(&r->window, data, in->fd, in->name, in->size, at, n, r->window_bytes,
                            e);
}

/* Counts bytes of a stored member for its checksum. */
static int add_sum(tensor_reader *r, const void *data, int64_t i, int64_t at, int64_t n, kv_err *e)
{
    const tensor_info *t = &r->c->tensors[i];
    bool right;
    TRY(npz_sum_add(&r->c->sums[t->member - 1], &r->run, i, data, at, n, &right, e));
    if (right)
        return KV_OK;
    /* A file that shrank has zeros there. */
    int rc = tensor_reader_check(r, e);
    return rc ? rc
              : file_bad(e, KV_E_FORMAT, r->c->files[t->file].name,
                         "tensor \"%.*s\": " NPZ_SUM_WRONG, SHOWN(t->name));
}

/* n bytes of a tensor in the order of the file. */
static int read_bytes(tensor_reader *r, const void **data, int64_t i, int64_t at, int64_t n,
                      kv_err *e)
{
    const tensor_info *t = &r->c->tensors[i];
    if (t->form & TENSOR_DEFLATED)
        return read_deflated(&r->deflated, r->c, data, i, at, n, e);
    int rc = read_plain(r, data, t->file, t->offset + at, n, e);
    return rc || !t->member ? rc : add_sum(r, *data, i, at, n, e);
}

/* ---- Elements that do not follow each other ----------------------------------------------------
 */

/* Makes ready to read single elements of tensor i: what is deflated is inflated into a file without
 * a name, and a checksum of other data is checked, for which they are read in their order. */
static int spread(tensor_reader *r, int64_t i, kv_err *e)
{
    const tensor_info *t = &r->c->tensors[i];
    bool deflated = t->form & TENSOR_DEFLATED;
    npz_sum *sum = t->member ? &r->c->sums[t->member - 1] : NULL;
    if (r->spread == i + 1)
        return KV_OK;
    r->spread = 0;
    if (deflated) {
        input_close(&r->inflated);
        TRY(input_new(&r->inflated, r->c->files[t->file].name, e));
    }
    for (int64_t at = 0, n; sum && at < sum->bytes; at += n) {
        const void *data;
        n = at_most(sum->bytes - at, TENSOR_BLOCK);
        if (!deflated && npz_sum_known(sum) && at == 0)
            at = sum->bytes - n; /* the last block tells whether it was right */
        TRY(read_bytes(r, &data, i, at, n, e));
        TRY(deflated ? input_append(&r->inflated, data, n, e) : KV_OK);
        TRY(stop_check(e));
    }
    r->spread = i + 1;
    return KV_OK;
}

/* Reads n elements, `step` elements from one to the next in the file; they then have no gaps. */
static int read_line(tensor_reader *r, char *to, const tensor_info *t, int64_t at, int64_t n,
                     int64_t step, kv_err *e)
{
    enum { LINE_BYTES = 1 << 16, FAR_BYTES = 1 << 11 };
    char line[LINE_BYTES];
    const int64_t width = tensor_type_run_bytes(t->type), one = 1;
    const input *in = t->form & TENSOR_DEFLATED ? &r->inflated : &r->c->files[t->file];
    int64_t begin = t->form & TENSOR_DEFLATED ? t->first : t->offset;
    int64_t most = step == 0 ? n : step * width > FAR_BYTES ? 1 : LINE_BYTES / (step * width);
    if (step == 1)
        return input_read(in, to, begin + at * width, n * width, e);
    for (int64_t i = 0, some; i < n; i += some) {
        some = at_most(n - i, most);
        int64_t bytes = ((some - 1) * step + 1) * width, from = begin + (at + i * step) * width;
        TRY(input_read(in, line, from, bytes, e));
        strided_copy(to + i * width, &one, line, &step, 1, &some, width, false);
    }
    return KV_OK;
}

/* Reads a box of elements in the order of the axes `near`, those of the file: by lines, which run
 * along the first of them and as many more as have no gap before them. */
static int read_lines(tensor_reader *r, char *to, const tensor_info *t, int64_t at,
                      const int64_t *shape, const int *near, kv_err *e)
{
    int64_t n = 1, step = 1, lines = 1, index[KV_MAX_NDIM] = {0};
    int first = 0, rc = KV_OK;
    for (; first < t->ndim; n *= shape[near[first++]]) {
        int64_t stride = t->strides[near[first]];
        if (shape[near[first]] > 1 && n > 1 && stride != step * n)
            break;
        step = shape[near[first]] > 1 && n == 1 ? stride : step;
    }
    for (int i = first; i < t->ndim; i++)
        lines *= shape[near[i]];
    for (int64_t k = 0; k < lines && !rc; k++) {
        rc = read_line(r, to, t, at, n, step, e);
        to += n * tensor_type_run_bytes(t->type);
        for (int i = first; i < t->ndim; i++) {
            at += t->strides[near[i]];
            if (++index[i] < shape[near[i]])
                break;
            at -= shape[near[i]] * t->strides[near[i]];
            index[i] = 0;
        }
    }
    return rc;
}

/* Reads a box of elements: `shape` of them from index `from` on, to where they follow each other in
 * the order of rows. Smaller boxes of it, of what is near in the file, are read and then turned, so
 * that neither the lines that are read nor the rows that are written are short. */
static int read_box(tensor_reader *r, char *to, const tensor_info *t, const int64_t *from,
                    const int64_t *shape, kv_err *e)
{
    const int64_t width = tensor_type_run_bytes(t->type);
    int64_t rows[KV_MAX_NDIM], part[KV_MAX_NDIM], index[KV_MAX_NDIM] = {0};
    int64_t room = TURNED_BYTES / width, ticks = 0;
    int near[KV_MAX_NDIM], k = 0, rc = KV_OK;
    strided_rows(rows, t->ndim, shape);
    for (int i = 0, j; i < t->ndim; near[j] = i++)
        for (j = i; j > 0 && t->strides[near[j - 1]] >= t->strides[i]; j--)
            near[j] = near[j - 1];
    for (int i = 0; i < t->ndim; room /= part[near[i++]])
        part[near[i]] = at_most(shape[near[i]], room);
    while (!rc && k >= 0) {
        int64_t some[KV_MAX_NDIM], packed[KV_MAX_NDIM], at = 0, place = 0, n = 1;
        for (int i = 0; i < t->ndim; i++) {
            some[i] = at_most(shape[i] - index[i], part[i]);
            at += (from[i] + index[i]) * t->strides[i];
            place += index[i] * rows[i];
        }
        for (int i = 0; i < t->ndim; n *= some[near[i++]])
            packed[near[i]] = n;
        if ((rc = read_lines(r, r->turned, t, at, some, near, e)) == KV_OK)
            strided_copy(to + place * width, rows, r->turned, packed, t->ndim, some, width, false);
        for (k = t->ndim - 1; k >= 0 && (index[k] += part[k]) >= shape[k]; k--)
            index[k] = 0;
        rc = rc ? rc : stop_check_at(++ticks, e);
    }
    return rc;
}

/* Reads elements `at` to at + n by boxes: all of the last axes, and some of the one before. */
static int gather(tensor_reader *r, char *to, const tensor_info *t, int64_t at, int64_t n,
                  kv_err *e)
{
    const int64_t width = tensor_type_run_bytes(t->type);
    while (n > 0) {
        int64_t from[KV_MAX_NDIM] = {0}, shape[KV_MAX_NDIM], rest = at, step = 1;
        int k = t->ndim - 1;
        for (int i = k; i >= 0; rest /= t->shape[i--]) {
            from[i] = rest % t->shape[i];
            shape[i] = 1;
        }
        while (k > 0 && from[k] == 0 && step * t->shape[k] <= n) {
            shape[k] = t->shape[k];
            step *= t->shape[k--];
        }
        int64_t left = t->shape[k] - from[k];
        shape[k] = at_most(n / step, left);
        TRY(read_box(r, to, t, from, shape, e));
        to += step * shape[k] * width;
        at += step * shape[k];
        n -= step * shape[k];
    }
    return KV_OK;
}

/* n bytes of a tensor in the order of rows. Of what is not in this order in the file more than that
 * is gathered where the reader knows that it goes on, since short lines of it are slow to read. */
static int read_rows(tensor_reader *r, const void **data, int64_t i, int64_t at, int64_t n,
                     kv_err *e)
{
    const tensor_info *t = &r->c->tensors[i];
    const int64_t width = tensor_type_run_bytes(t->type);
    rows_block *b = &r->rows;
    if (!(t->form & TENSOR_STRIDED)) {
        rows_release(b); /* the window may need the room */
        return read_bytes(r, data, i, at, n, e);
    }
    if (b->of != i + 1 || at < b->at || at + n > b->at + b->bytes) {
        int64_t end = r->ahead_of == i + 1 && r->ahead > at + n ? r->ahead : at + n;
        int64_t most = r->window_bytes > TENSOR_BLOCK ? r->window_bytes : TENSOR_BLOCK;
        int64_t bytes = at_most(end - at, most) / width * width;
        b->of = 0;
        TRY(spread(r, i, e));
        TRY(file_window_check(&r->window, e));
        file_window_close(&r->window);
        if (bytes > b->cap)
            rows_release(b);
        if ((!r->turned && !(r->turned = mem_alloc(TURNED_BYTES, 1, e))) ||
            (!b->data && !(b->data = mem_alloc(bytes, 1, e))))
            return KV_E_MEMORY;
        b->cap = bytes > b->cap ? bytes : b->cap;
        TRY(gather(r, b->data, t, at / width, bytes / width, e));
        b->of = i + 1;
        b->at = at;
        b->bytes = bytes;
    }
    *data = b->data + (at - b->at);
    return KV_OK;
}

void tensor_reader_ahead(tensor_reader *r, int64_t i, int64_t end)
{
    r->ahead_of = i + 1;
    r->ahead = end;
}

/* ---- Bytes in the other order ---------------------------------------------------------------- */

#define SWAP(type, swap)                                                                           \
    for (int64_t i = 0; i < n; i += (int64_t)sizeof(type)) {                                       \
        type x;                                                                                    \
        memcpy(&x, from + i, sizeof x);                                                            \
        x = swap(x);                                                                               \
        memcpy(to + i, &x, sizeof x);                                                              \
    }

/* A copy of n bytes of numbers with the bytes of each in the other order. */
static void swap(char *to, const char *from, int64_t n, tensor_type type)
{
    int64_t width = type == TENSOR_C64 ? 4 : tensor_type_run_bytes(type);
    if (width == 2) {
        SWAP(uint16_t, __builtin_bswap16)
    } else if (width == 4) {
        SWAP(uint32_t, __builtin_bswap32)
    } else {
        SWAP(uint64_t, __builtin_bswap64)
    }
}

int tensor_read(tensor_reader *r, const void **data, int64_t i, int64_t at, int64_t n, kv_err *e)
{
    const tensor_info *t = &r->c->tensors[i];
    *data = "";
    if (n == 0)
        return KV_OK;
    if (!kv_assert(at >= 0 && n >= 0 && at <= t->bytes && n <= t->bytes - at,
                   "bytes %lld to %lld were asked for of a tensor of %lld", (long long)at,
                   (long long)(at + n), (long long)t->bytes))
        return kv_assert_report(e);
    if (t->form & TENSOR_DECODED)
        return read_decoded(r, data, i, at, n, e);
    if (t->form & TENSOR_SPARSE)
        return tensor_sparse_read(&r->sparse, r->c, data, i, at, n, e);
    TRY(read_rows(r, data, i, at, n, e));
    if (!(t->form & TENSOR_SWAPPED))
        return KV_OK;
    if (!r->swapped && !(r->swapped = mem_alloc(TENSOR_BLOCK, 1, e)))
        return KV_E_MEMORY;
    swap(r->swapped, *data, n, t->type);
    *data = r->swapped;
    return KV_OK;
}

const char *tensor_map(file_window *w, const checkpoint *c, int64_t i)
{
    const tensor_info *t = &c->tensors[i];
    const input *in = &c->files[t->file];
    if (t->form || t->member || in->fd < 0)
        return NULL;
    return file_window_map(w, in->fd, in->name, in->size, t->offset, t->bytes);
}

int tensor_reader_check(const tensor_reader *r, kv_err *e)
{
    int rc = r->scales ? tensor_reader_check(r->scales, e) : KV_OK;
    return rc ? rc : file_window_check(&r->window, e);
}
