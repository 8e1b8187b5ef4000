/* Files of named arrays in the safetensors format, which other tools read and write too.
 *
 *   offset   size   meaning
 *   0        8      n, the length of the header: unsigned, little-endian, at most 100,000,000
 *   8        n      the header: a JSON object in UTF-8, and blanks behind it. White space before
 * it, which some writers use to align the data, is read, not written 8 + n    rest   the data:
 * every byte belongs to exactly one tensor
 *
 * The header has one member for each tensor, by name, and may have one for texts by name:
 *
 *   {"__metadata__": {"format": "pt"},
 *    "fc1.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
 *
 * data_offsets are the first byte of the tensor's data and the one behind them, from the begin of
 * the data. Data are little-endian, row-major, packed, without gaps. The dtypes are those of
 * tensor_type.h. Source: the format's page and its reader, tensor.rs. As it does, further members
 * of a tensor are passed over, __metadata__ may be null, and of two texts of one name the last
 * counts. Names and texts with a NUL, and more than 32 axes, it reads and we cannot hold.
 *
 * The writer puts members in the order given, metadata first; blanks until n is a multiple of 8;
 * data of 8-byte elements first, then of 4, 2 and less, in the order given within each, so that a
 * reader which maps the file finds every tensor aligned. The same call gives the same bytes.
 *
 * Files are read through checkpoint.h: the whole header is checked, that is sizes, offsets, holes,
 * names, lengths.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "checkpoint/checkpoint.h"

#define SAFETENSORS_HEADER_MAX 100000000 /* the limit of the format's own reader */
#define SAFETENSORS_METADATA   "__metadata__"

/* So much white space may stand before the { of a header. */
#define SAFETENSORS_BLANKS 4096

/* A tensor of a file that is to be written. Names and texts are UTF-8 of any length, "" included;
 * no name stands twice, and no tensor's is "__metadata__". */
typedef struct safetensors_entry {
    const char *name;
    tensor_type type; /* one of the format's */
    int ndim;
    const int64_t *shape;
    int64_t begin; /* out: where its data begin in the file */
    int64_t bytes; /* out: of its data */
} safetensors_entry;

/* Appends the length and the header of a file, and fills in where data go. *size: the bytes of the
 * whole file. path is for messages. Errors: value (a name that is not UTF-8, stands twice or is
 * taken, elements that end within a byte, a header or data beyond the limits), memory. */
int safetensors_header(buf *out, int64_t *size, safetensors_entry *entries, int64_t n,
                       const checkpoint_text *metadata, int64_t nmetadata, const char *path,
                       kv_err *e);

/* An array with its name. */
typedef struct safetensors_item {
    const char *name;
    kv_array *array;
} safetensors_item;

/* Writes a whole file to f: n arrays (0 is allowed) and nmetadata texts. The data go to f straight
 * from the arrays; elements still in a source (array_source_of) are copied in blocks, and
 * it still has not read them then. path is for messages; f is best that of a file_out, so that a
 * failure leaves the old file. Blocks until what writes the arrays has ended.
 * Errors, before anything is written: those of safetensors_header; later: io, an array's own. */
int safetensors_write(FILE *f, const char *path, const safetensors_item *items, int64_t n,
                      const checkpoint_text *metadata, int64_t nmetadata, kv_err *e);

/* Appends the same bytes to out. name is for messages. Errors: the same but io. */
int safetensors_print(buf *out, const char *name, const safetensors_item *items, int64_t n,
                      const checkpoint_text *metadata, int64_t nmetadata, kv_err *e);
