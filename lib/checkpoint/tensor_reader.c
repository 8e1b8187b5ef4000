/* Blocks of tensors: from where they stand, inflated, in the order of rows, little-endian. */
#include "checkpoint/tensor_reader.h"

#include <string.h>

#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/file_window.h"
#include "checkpoint/tensor_deflated.h"
#include "checkpoint/tensor_fortran.h"

struct tensor_reader {
    const checkpoint *c;
    int64_t window_bytes;
    file_window window;
    npz_sum_run run; /* of the checksum of what was read last */
    tensor_deflated deflated;
    tensor_fortran fortran;
    input inflated; /* a deflated tensor whose first index runs fastest */
    char *swapped;  /* a block */
};

int tensor_reader_new(tensor_reader **out, const checkpoint *c, int64_t window_bytes, kv_err *e)
{
    tensor_reader *r = mem_zalloc(1, sizeof *r, e);
    if (!r)
        return KV_E_MEMORY;
    r->c = c;
    r->window_bytes = window_bytes > 0 && window_bytes < TENSOR_BLOCK ? TENSOR_BLOCK : window_bytes;
    r->inflated.fd = -1;
    *out = r;
    return KV_OK;
}

void tensor_reader_free(tensor_reader *r)
{
    if (!r)
        return;
    file_window_close(&r->window);
    tensor_deflated_release(&r->deflated);
    tensor_fortran_release(&r->fortran);
    input_close(&r->inflated);
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

/* Reads all of a tensor in the order of the file, so that its checksum is known; `into` (optional)
 * receives it. */
static int read_through(tensor_reader *r, int64_t i, input *into, kv_err *e)
{
    const tensor_info *t = &r->c->tensors[i];
    int code = KV_OK;
    for (int64_t at = 0; at < t->bytes && !code; at += TENSOR_BLOCK) {
        const void *data;
        int64_t n = t->bytes - at < TENSOR_BLOCK ? t->bytes - at : TENSOR_BLOCK;
        code = read_bytes(r, &data, i, at, n, e);
        if (!code && into)
            code = input_append(into, data, n, e);
        if (!code)
            code = stop_check(e);
    }
    return code;
}

static int begin_fortran(tensor_reader *r, int64_t i, kv_err *e)
{
    const tensor_info *t = &r->c->tensors[i];
    const input *in = &r->c->files[t->file];
    int code = KV_OK;
    r->fortran.tensor = 0;
    if (t->form & TENSOR_DEFLATED) {
        input_close(&r->inflated);
        if (!(code = input_new(&r->inflated, in->name, e)))
            code = read_through(r, i, &r->inflated, e);
        if (!code)
            tensor_fortran_begin(&r->fortran, i, &r->inflated, 0);
        return code;
    }
    if (t->member)
        code = npz_sum_known(&r->c->sums[t->member - 1]) ? add_sum(r, NULL, i, 0, 0, e)
                                                         : read_through(r, i, NULL, e);
    if (!code)
        tensor_fortran_begin(&r->fortran, i, in, t->offset);
    return code;
}

/* n bytes of a tensor in the order of rows. */
static int read_rows(tensor_reader *r, const void **data, int64_t i, int64_t at, int64_t n,
                     kv_err *e)
{
    const tensor_info *t = &r->c->tensors[i];
    if (!(t->form & TENSOR_FORTRAN))
        return read_bytes(r, data, i, at, n, e);
    int code = tensor_fortran_is(&r->fortran, i) ? KV_OK : begin_fortran(r, i, e);
    return code ? code : tensor_fortran_read(&r->fortran, t, data, at, n, e);
}

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
