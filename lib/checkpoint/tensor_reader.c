/* Blocks of tensors: from where they stand, inflated, in the order of rows, little-endian. */
#include "checkpoint/tensor_reader.h"

#include <string.h>
#include <unistd.h>

#include "array/arrange.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/file_window.h"
#include "checkpoint/tensor_deflated.h"

struct tensor_reader {
    const checkpoint *c;
    int64_t window_bytes;
    file_window window;
    npz_sum_run run; /* of the checksum of what was read last */
    tensor_deflated deflated;
    /* A tensor whose first index runs fastest in the file: its number + 1, and its rows. */
    int64_t turned, rows_cap;
    char *rows;
    char *swapped; /* a block */
};

int tensor_reader_new(tensor_reader **out, const checkpoint *c, int64_t window_bytes, kv_err *e)
{
    tensor_reader *r = mem_zalloc(1, sizeof *r, e);
    if (!r)
        return KV_E_MEMORY;
    r->c = c;
    r->window_bytes = window_bytes > 0 && window_bytes < TENSOR_BLOCK ? TENSOR_BLOCK : window_bytes;
    *out = r;
    return KV_OK;
}

void tensor_reader_free(tensor_reader *r)
{
    if (!r)
        return;
    file_window_close(&r->window);
    tensor_deflated_release(&r->deflated);
    mem_free(r->rows);
    mem_free(r->swapped);
    mem_free(r);
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
    int code = npz_sum_add(&r->c->sums[t->member - 1], &r->run, i, data, at, n, &right, e);
    if (code || right)
        return code;
    /* A file that shrank has zeros there. */
    code = tensor_reader_check(r, e);
    return code ? code
                : file_bad(e, KV_E_FORMAT, r->c->files[t->file].name,
                           "tensor \"%.*s\": " NPZ_SUM_WRONG, SHOWN(t->name));
}

/* n bytes of a tensor in the order of the file. */
static int read_bytes(tensor_reader *r, const void **data, int64_t i, int64_t at, int64_t n,
                      kv_err *e)
{
    const tensor_info *t = &r->c->tensors[i];
    if (t->form & TENSOR_DEFLATED)
        return tensor_deflated_read(&r->deflated, r->c, data, i, at, n, e);
    int code = read_plain(r, data, t->file, t->offset + at, n, e);
    return code || !t->member ? code : add_sum(r, *data, i, at, n, e);
}

/* ---- Where the first index runs fastest ------------------------------------------------------ */

/* Copies a part of such a tensor to its rows: from element `at` of the file on, all indices of the
 * first axes and some of the next one. Returns the number of elements, `most` or fewer; rows NULL:
 * only counts them. */
static int64_t turn(char *rows, const tensor_info *t, const void *data, int64_t at, int64_t most)
{
    int64_t to[KV_MAX_NDIM], from[KV_MAX_NDIM], shape[KV_MAX_NDIM], step = 1, place = 0, rest = at;
    int64_t width = tensor_type_run_bytes(t->type);
    int k = 0;
    strided_rows(to, t->ndim, t->shape);
    for (int i = 0; i < t->ndim; rest /= t->shape[i++])
        place += rest % t->shape[i] * to[i];
    while (at % (step * t->shape[k]) == 0 && step * t->shape[k] <= most && k + 1 < t->ndim) {
        from[k] = step;
        shape[k] = t->shape[k];
        step *= t->shape[k++];
    }
    int64_t left = t->shape[k] - at / step % t->shape[k];
    from[k] = step;
    shape[k] = most / step < left ? most / step : left;
    if (rows)
        strided_copy(rows + place * width, to, data, from, k + 1, shape, width, false);
    return shape[k] * step;
}

/* Beyond half of the machine's memory the rows of a tensor would push everything else out. */
static int make_room(tensor_reader *r, const tensor_info *t, kv_err *e)
{
    if (t->bytes / sysconf(_SC_PAGESIZE) <= sysconf(_SC_PHYS_PAGES) / 2)
        return mem_grow(&r->rows, &r->rows_cap, t->bytes, 1, e);
    file_bad(e, KV_E_UNSUPPORTED, r->c->files[t->file].name,
             "tensor \"%.*s\" is in Fortran order, and its %lld bytes are more than half of the "
             "memory",
             SHOWN(t->name), (long long)t->bytes);
    kv_err_hint(e, "numpy.ascontiguousarray makes an array in C order");
    return KV_E_UNSUPPORTED;
}

/* Reads all of a tensor in the order of the file, and keeps its rows. */
static int turn_all(tensor_reader *r, int64_t i, kv_err *e)
{
    const tensor_info *t = &r->c->tensors[i];
    const int64_t width = tensor_type_run_bytes(t->type);
    r->turned = 0;
    int code = make_room(r, t, e);
    for (int64_t at = 0, n; at < t->elements && !code; at += n) {
        const void *data;
        n = turn(NULL, t, NULL, at, TENSOR_BLOCK / width);
        if ((code = read_bytes(r, &data, i, at * width, n * width, e)) == KV_OK)
            turn(r->rows, t, data, at, n);
        code = code ? code : stop_check(e);
    }
    r->turned = code ? 0 : i + 1;
    return code;
}

/* n bytes of a tensor in the order of rows. */
static int read_rows(tensor_reader *r, const void **data, int64_t i, int64_t at, int64_t n,
                     kv_err *e)
{
    if (!(r->c->tensors[i].form & TENSOR_FORTRAN))
        return read_bytes(r, data, i, at, n, e);
    int code = r->turned == i + 1 ? KV_OK : turn_all(r, i, e);
    *data = r->rows + at;
    return code;
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
    int code = read_rows(r, data, i, at, n, e);
    if (code || !(t->form & TENSOR_SWAPPED))
        return code;
    if (!r->swapped && !(r->swapped = mem_alloc(TENSOR_BLOCK, 1, e)))
        return KV_E_MEMORY;
    swap(r->swapped, *data, n, t->type);
    *data = r->swapped;
    return KV_OK;
}

int tensor_reader_check(const tensor_reader *r, kv_err *e)
{
    return file_window_check(&r->window, e);
}
