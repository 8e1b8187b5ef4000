/* Arrays as MXNet's nd.save writes them: .params. All numbers are little-endian.
 *
 *   offset  size  the file
 *   0       8     0x112
 *   8       8     0
 *   16      8     number of arrays; their records follow
 *   then    8     number of names, which is that of the arrays, or 0; the names follow:
 *           8, n  bytes of a name, the name
 *
 *   offset  size  a record of version 2
 *   0       4     0xF993FAC9
 *   4       4     storage type: 0 dense, 1 row_sparse, 2 csr. A sparse array has the shape of its
 *                 values here
 *   8       4     number of axes; 0: there is no array, and the record ends here
 *   12      8 n   sizes, the slowest axis first
 *           4, 4  type and number of the device
 *           4     type of the elements. A sparse array has for each of its arrays of indices
 *                 their type and their shape here
 *                 the elements, row-major; then the indices
 *
 * Version 3 (0xF993FACA) has dense arrays only: 0 axes are a number and -1 are none.
 * Version 1 (0xF993FAC8) has no storage type. Before it a record began with the number of axes, and
 * sizes had 4 bytes. Source: MXNet's src/ndarray/ndarray.cc and include/mxnet/tuple.h.
 */
#ifndef CHECKPOINT_PARAMS_H
#define CHECKPOINT_PARAMS_H

#include "base/buf.h"
#include "checkpoint/checkpoint_build.h"

#define PARAMS_MAGIC "\x12\1\0\0\0\0\0\0"
enum { PARAMS_MAGIC_BYTES = 8, PARAMS_BEGIN = 24 };

/* Sparse arrays are read as the dense ones that they mean, see tensor_sparse.h. */
checkpoint_reader params_read;

/* Bytes of a record of version 2 before its elements. */
static inline int64_t params_head_bytes(int ndim)
{
    return 24 + 8 * (int64_t)ndim;
}

/* Appends these bytes. Errors: dtype (MXNet has no such type), value (there are no axes). name and
 * path are for messages. */
int params_put_head(buf *out, const char *name, tensor_type type, int ndim, const int64_t *shape,
                    const char *path, kv_err *e);

/* Appends a number of 8 bytes. */
void params_put_number(buf *out, uint64_t x);

#endif
