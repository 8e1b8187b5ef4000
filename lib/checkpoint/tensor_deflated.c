/* Inflating tensors. */
#include "checkpoint/tensor_deflated.h"

#include <string.h>

#include "base/file.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/tensor_reader.h"

/* Inflates the next n bytes into the block. */
static int inflate_next(tensor_deflated *d, int64_t n, kv_err *e)
{
    int64_t got;
    int code = inflate_read(d->from, d->block, n, &got, e);
    if (!code && got < n)
        code = file_bad(e, KV_E_FORMAT, buf_text(&d->name),
                        "its compressed data end too early: %lld bytes are missing",
                        (long long)(n - got));
    return code;
}

/* Goes to the begin of tensor i, behind its header. */
static int restart(tensor_deflated *d, const checkpoint *c, int64_t i, kv_err *e)
{
    const tensor_info *t = &c->tensors[i];
    const input *in = &c->files[t->file];
    int64_t header = c->sums[t->member - 1].header_bytes;
    buf_clear(&d->name);
    buf_printf(&d->name, "%s: tensor \"%.*s\"", in->name, SHOWN(t->name));
    int code = buf_check(&d->name, e);
    if (!code && !d->block && !(d->block = mem_alloc(TENSOR_BLOCK, 1, e)))
        code = KV_E_MEMORY;
    if (!code && !d->from)
        code = inflate_new(&d->from, e);
    if (!code)
        code = inflate_begin(d->from, in, t->offset, t->stored_bytes, buf_text(&d->name), e);
    while (!code && header > 0) {
        int64_t n = header < TENSOR_BLOCK ? header : TENSOR_BLOCK;
        code = inflate_next(d, n, e);
        header -= n;
    }
    d->tensor = code ? 0 : i + 1;
    d->begin = d->end = 0;
    d->crc = 0;
    return code;
}

/* Checks that nothing follows the last byte, and the checksum. */
static int check_end(const tensor_deflated *d, const npz_sum *sum, kv_err *e)
{
    char extra;
    int64_t got;
    int code = inflate_read(d->from, &extra, 1, &got, e);
    if (!code && got)
        code = file_bad(e, KV_E_FORMAT, buf_text(&d->name),
                        "its compressed data are more than its header asks for");
    if (!code && !npz_sum_right(sum, d->crc))
        code = file_bad(e, KV_E_FORMAT, buf_text(&d->name), NPZ_SUM_WRONG);
    return code;
}

/* The next n bytes of data. */
static int go_on(tensor_deflated *d, const checkpoint *c, int64_t n, kv_err *e)
{
    const npz_sum *sum = &c->sums[c->tensors[d->tensor - 1].member - 1];
    int code = inflate_next(d, n, e);
    d->begin = d->end;
    d->end += n;
    if (!code)
        d->crc = inflate_crc(d->crc, d->block, n);
    if (!code && d->end == sum->bytes)
        code = check_end(d, sum, e);
    if (code)
        d->tensor = 0;
    return code;
}

int tensor_deflated_read(tensor_deflated *d, const checkpoint *c, const void **data, int64_t i,
                         int64_t at, int64_t n, kv_err *e)
{
    int code = KV_OK;
    if (d->tensor == i + 1 && at >= d->begin && at + n <= d->end) {
        *data = d->block + (at - d->begin);
        return KV_OK;
    }
    if (d->tensor != i + 1 || at < d->end)
        code = restart(d, c, i, e);
    while (!code && d->end < at && !(code = stop_check(e)))
        code = go_on(d, c, at - d->end < TENSOR_BLOCK ? at - d->end : TENSOR_BLOCK, e);
    if (!code)
        code = go_on(d, c, n, e);
    *data = d->block;
    return code;
}

void tensor_deflated_release(tensor_deflated *d)
{
    inflate_free(d->from);
    mem_free(d->block);
    buf_release(&d->name);
}
