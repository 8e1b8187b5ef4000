/* Blocks of tensors. */
#include "checkpoint/tensor_reader.h"

#include "base/kv_assert.h"
#include "base/mem.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/file_window.h"

struct tensor_reader {
    const checkpoint *c;
    int64_t window_bytes;
    file_window window;
};

int tensor_reader_new(tensor_reader **out, const checkpoint *c, int64_t window_bytes, kv_err *e)
{
    tensor_reader *r = mem_zalloc(1, sizeof *r, e);
    if (!r)
        return KV_E_MEMORY;
    r->c = c;
    r->window_bytes = window_bytes > TENSOR_BLOCK ? window_bytes : TENSOR_BLOCK;
    *out = r;
    return KV_OK;
}

void tensor_reader_free(tensor_reader *r)
{
    if (!r)
        return;
    file_window_close(&r->window);
    mem_free(r);
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
    return read_plain(r, data, t->file, t->offset + at, n, e);
}

int tensor_reader_check(const tensor_reader *r, kv_err *e)
{
    return file_window_check(&r->window, e);
}
