/* Numbers of 7 bits a byte, the lowest first; the top bit is set in all bytes but the last. */
#ifndef PATCH_VARINT_H
#define PATCH_VARINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define VARINT_MAX 9 /* bytes of a number below 2^63 */

static inline void varint_put(buf *out, int64_t n)
{
    uint64_t left = (uint64_t)n;
    for (; left > 127; left >>= 7)
        buf_char(out, (char)(left | 128));
    buf_char(out, (char)left);
}

/* Bytes that are read from the front. */
typedef struct varint_reader {
    const unsigned char *at, *end;
} varint_reader;

/* Takes a number below 2^63; false: there is none. */
static inline bool varint_take(varint_reader *r, int64_t *n)
{
    uint64_t x = 0;
    for (int i = 0; i < VARINT_MAX && r->at < r->end; i++) {
        unsigned char c = *r->at++;
        x |= (uint64_t)(c & 127) << (7 * i);
        if (c < 128) {
            *n = (int64_t)x;
            return true;
        }
    }
    return false;
}

#endif
