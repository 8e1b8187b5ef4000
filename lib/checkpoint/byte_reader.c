/* Bytes through a buffer. */
#include "checkpoint/byte_reader.h"

#include <string.h>

#include "base/mem.h"

#define BUFFER_BYTES ((int64_t)64 << 10)

int64_t byte_reader_left(const byte_reader *r)
{
    return r->in->size - r->at;
}

/* Makes the buffer begin at the next byte. */
static int fill(byte_reader *r, kv_err *e)
{
    int64_t left = byte_reader_left(r), n = left < BUFFER_BYTES ? left : BUFFER_BYTES;
    if (!r->buffer && !(r->buffer = mem_alloc(BUFFER_BYTES, 1, e)))
        return KV_E_MEMORY;
    r->begin = r->at;
    r->bytes = 0;
    int rc = input_read(r->in, r->buffer, r->at, n, e);
    if (!rc)
        r->bytes = n;
    return rc;
}

int byte_reader_take(byte_reader *r, void *to, int64_t n, kv_err *e)
{
    int rc;
    if (n > BUFFER_BYTES) {
        rc = input_read(r->in, to, r->at, n, e);
        r->at += n;
        return rc;
    }
    if ((r->at < r->begin || r->at + n > r->begin + r->bytes) && (rc = fill(r, e)))
        return rc;
    if (n)
        memcpy(to, r->buffer + (r->at - r->begin), (size_t)n);
    r->at += n;
    return KV_OK;
}

void byte_reader_release(byte_reader *r)
{
    mem_free(r->buffer);
    r->buffer = NULL;
}
