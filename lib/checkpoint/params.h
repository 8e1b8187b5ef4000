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
#pragma once

#include "base/buf.h"
#include "checkpoint/checkpoint_build.h"

#define PARAMS_MAGIC "\x12\1\0\0\0\0\0\0"
enum { PARAMS_MAGIC_BYTES = 8 };

/* Sparse arrays are read as the dense ones that they mean, see tensor_reader.c. */
checkpoint_reader params_read;

/* Appends what a file of n arrays begins with. */
void params_put_begin(buf *out, int64_t n);

/* Appends the bytes of a record before its elements. nrows: the rows that a row_sparse array holds,
 * -1 of a dense one. Errors: dtype (MXNet has no such type), value (there are no axes). name and
 * path are for messages. */
int params_put_head(buf *out, const char *name, tensor_type type, int ndim, const int64_t *shape,
                    int64_t nrows, const char *path, kv_err *e);

/* Appends n names, which end a file: `bytes` lie from one to the next. */
void params_put_names(buf *out, const void *names, size_t bytes, int64_t n);

/* kv_save_list, see kvstore.h. names are for messages, and written if has_names. */
int params_save(const char *path, const char *const *names, bool has_names, int64_t n,
                kv_array *const *arrays, kv_err *e);

/* The same of kv_load_list, from a checkpoint that was opened with its entries. */
int params_load(const checkpoint *c,
                int (*visit)(void *arg, const char *name, kv_array *array, kv_err *e), void *arg,
                kv_err *e);
