/* Files of named arrays in the safetensors format, which other tools read and write too.
 *
 *   offset   size   meaning
 *   0        8      n, the length of the header: unsigned, little-endian, at most 100,000,000
 *   8        n      the header: a JSON object in UTF-8 that begins with {, and blanks behind it
 *   8 + n    rest   the data: every byte belongs to exactly one tensor
 *
 * The header has one member for each tensor, by name, and may have one for texts by name:
 *
 *   {"__metadata__": {"format": "pt"},
 *    "fc1.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
 *
 * data_offsets are the first byte of the tensor's data and the one behind them, from the begin of
 * the data. Data are little-endian, row-major, without gaps. dtypes: F64 F32 F16 BF16 I64 I32 I8 U8
 * BOOL (a byte of 0 or 1). The format has others; a file with one of them is refused.
 *
 * The writer puts members in the order given, metadata first; blanks until n is a multiple of 8;
 * data of 8-byte elements first, then of 4, 2 and 1, in the order given within each, so that a
 * reader which maps the file finds every tensor aligned. The same call gives the same bytes.
 *
 * A file that was opened has been checked as a whole, its data excepted: sizes, offsets, holes,
 * names, lengths. Errors name the file first: `m.safetensors: cut within its data: …`.
 */
#ifndef IO_SAFETENSORS_H
#define IO_SAFETENSORS_H

#include <stddef.h>
#include <stdio.h>

#include "array/kv_array.h"
#include "base/buf.h"

/* ---- Writing --------------------------------------------------------------------------------- */

/* Names and texts are UTF-8 of any length, "" included; no name stands twice, and no tensor's is
 * "__metadata__". */
typedef struct safetensors_item {
    const char *name;
    kv_array *array;
} safetensors_item;

typedef struct safetensors_pair {
    const char *name, *text;
} safetensors_pair;

/* Writes a whole file to f: n arrays (0 is allowed) and nmetadata texts. The data go to f straight
 * from the arrays. path is for messages; f is best that of a file_out, so that a failure leaves the
 * old file. Blocks until what writes the arrays has ended.
 * Errors, before anything is written: value (a name that is not UTF-8, stands twice or is taken, a
 * header or data beyond the limits), memory; later: io, an array's own. */
int safetensors_write(FILE *f, const char *path, const safetensors_item *items, int64_t n,
                      const safetensors_pair *metadata, int64_t nmetadata, kv_err *e);

/* Appends the same bytes to out. name is for messages. Errors: the same but io. */
int safetensors_print(buf *out, const char *name, const safetensors_item *items, int64_t n,
                      const safetensors_pair *metadata, int64_t nmetadata, kv_err *e);

/* ---- Reading --------------------------------------------------------------------------------- */

/* A file opened for reading. Several threads may load from one at the same time. */
typedef struct safetensors safetensors;

typedef struct safetensors_tensor {
    const char *name;
    kv_dtype dtype;
    int ndim;             /* 0 to KV_MAX_NDIM */
    const int64_t *shape; /* ndim sizes */
    int64_t bytes;        /* of its data */
    int64_t offset;       /* of its data in the file */
} safetensors_tensor;

/* Opens a file, reads its header and checks all of it. The data stay in the file until a tensor is
 * loaded; the file may be replaced meanwhile, not changed. What is no regular file ("-" for stdin,
 * a pipe) is read to its end into memory. Errors: io, memory, format (malformed, cut, bytes too
 * many), unsupported (a dtype not ours). */
int safetensors_open(safetensors **out, const char *path, kv_err *e);

/* The same for a file in memory (n bytes, borrowed until it is closed). name is for messages. */
int safetensors_open_memory(safetensors **out, const void *text, size_t n, const char *name,
                            kv_err *e);

void safetensors_close(safetensors *s); /* NULL is allowed */

/* The tensors in the order of the header. What is returned is borrowed until the file is closed. */
int64_t safetensors_count(const safetensors *s);
const safetensors_tensor *safetensors_at(const safetensors *s, int64_t i);

/* The number of the tensor with this name, or -1. */
int64_t safetensors_find(const safetensors *s, const char *name);

/* The texts of __metadata__ in the order of the header, and the one with this name, or NULL. */
int64_t safetensors_metadata_count(const safetensors *s);
const safetensors_pair *safetensors_metadata_at(const safetensors *s, int64_t i);
const char *safetensors_metadata(const safetensors *s, const char *name);

/* Tensor i as a new array on cpu(0). Reads its bytes only.
 * Errors: io, memory, format (a byte of BOOL data that is neither 0 nor 1). */
int safetensors_load(kv_array **out, const safetensors *s, int64_t i, kv_err *e);

/* The tensor with this name. Also: name (there is none). */
int safetensors_load_name(kv_array **out, const safetensors *s, const char *name, kv_err *e);

/* All of them: arrays has room for safetensors_count(s). After a failure there are none. */
int safetensors_load_all(kv_array **arrays, const safetensors *s, kv_err *e);

#endif
