/* The data of deflated members of npz archives, from begin to end. */
#ifndef CHECKPOINT_TENSOR_DEFLATED_H
#define CHECKPOINT_TENSOR_DEFLATED_H

#include "base/buf.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/inflate.h"

/* Where one reader is. All zero is nowhere. */
typedef struct tensor_deflated {
    inflate_stream *from;
    int64_t tensor;     /* its number + 1 */
    int64_t begin, end; /* of the data in block */
    uint32_t crc;       /* of the data up to `end` */
    char *block;
    buf name;           /* for messages */
} tensor_deflated;

/* Makes *data point to n bytes (TENSOR_BLOCK at most) of tensor i from its byte `at` on, until the
 * next call. The last bytes are given out once they are known to be the last, and the checksum to
 * be right. Errors: io, format (damaged, cut, or of another size), memory, unsupported. */
int tensor_deflated_read(tensor_deflated *d, const checkpoint *c, const void **data, int64_t i,
                         int64_t at, int64_t n, kv_err *e);

void tensor_deflated_release(tensor_deflated *d);

#endif
