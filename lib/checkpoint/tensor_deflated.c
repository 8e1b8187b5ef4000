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
    int rc = inflate_read(d->from, d->block, n, &got, e);
    if (!rc && got < n)
        rc = file_bad(e, KV_E_FORMAT, buf_text(&d->name),
                      "its compressed data end too early: %lld bytes are missing",
                      (long long)(n - got));
    return rc;
}

/* Goes to the begin of tensor i, behind its header. */
static int restart(tensor_deflated *d, const checkpoint *c, int64_t i, kv_err *e)
{
    const tensor_info *t = &c->tensors[i];
    const input *in = &c->files[t->file];
    int64_t header = c->sums[t->member - 1].header_bytes;
    buf_clear(&d->name);
    buf_printf(&d->name, "%s: tensor \"%.*s\"", in->name, SHOWN(t->name));
    int rc = buf_check(&d->name, e);
    if (!rc && !d->block && !(d->block = mem_alloc(TENSOR_BLOCK, 1, e)))
        rc = KV_E_MEMORY;
    if (!rc && !d->from)
        rc = inflate_new(&d->from, e);
    if (!rc)
        rc = inflate_begin(d->from, in, t->offset, t->stored_bytes, buf_text(&d->name), e);
    while (!rc && header > 0) {
        int64_t n = header < TENSOR_BLOCK ? header : TENSOR_BLOCK;
        rc = inflate_next(d, n, e);
        header -= n;
    }
    d->tensor = rc ? 0 : i + 1;
    d->begin = d->end = 0;
    d->crc = 0;
    return rc;
}

/* Checks that nothing follows the last byte, and the checksum. */
static int check_end(const tensor_deflated *d, const npz_sum *sum, kv_err *e)
{
    char extra;
    int64_t got;
    int rc = inflate_read(d->from, &extra, 1, &got, e);
    if (!rc && got)
        rc = file_bad(e, KV_E_FORMAT, buf_text(&d->name),
                      "its compressed data are more than its header asks for");
    if (!rc && !npz_sum_right(sum, d->crc))
        rc = file_bad(e, KV_E_FORMAT, buf_text(&d->name), NPZ_SUM_WRONG);
    return rc;
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

int tensor_deflated_read(tensor_deflated *d, const checkpoint *c, const void **data, int64_t i,
                         int64_t at, int64_t n, kv_err *e)
{
    int rc = KV_OK;
    if (d->tensor == i + 1 && at >= d->begin && at + n <= d->end) {
        *data = d->block + (at - d->begin);
        return KV_OK;
    }
    if (d->tensor != i + 1 || at < d->end)
        rc = restart(d, c, i, e);
    while (!rc && d->end < at && !(rc = stop_check(e)))
        rc = go_on(d, c, at - d->end < TENSOR_BLOCK ? at - d->end : TENSOR_BLOCK, e);
    if (!rc)
        rc = go_on(d, c, n, e);
    *data = d->block;
    return rc;
}

void tensor_deflated_release(tensor_deflated *d)
{
    inflate_free(d->from);
    mem_free(d->block);
    buf_release(&d->name);
}
