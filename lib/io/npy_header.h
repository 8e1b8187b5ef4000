/* The header of NumPy's npy format, which io/npy.h describes: dtype, order and shape of the
 * elements that follow. Files of one array and the members of npz archives have it. */
#ifndef IO_NPY_HEADER_H
#define IO_NPY_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "array/kv_array.h"
#include "base/buf.h"

#define NPY_DESCR_MAX 40

typedef struct npy_header {
    char descr[NPY_DESCR_MAX + 1]; /* as the file has it, cut */
    char kind;    /* f, i, u, b (bool), c (complex: two floats); 0: descr is none that is known */
    int width;    /* bytes of an element; 1, 2, 4 or 8 */
    bool swapped; /* big-endian */
    bool fortran; /* the first index runs fastest */
    int ndim;
    int64_t shape[KV_MAX_NDIM];
    int64_t bytes; /* from the magic to where the data begin */
} npy_header;

/* Where a header comes from: take reads n bytes, or fewer at the end, and says how many. name is
 * for messages. */
typedef struct npy_source {
    int (*take)(void *arg, void *to, int64_t n, int64_t *got, kv_err *e);
    void *arg;
    const char *name;
} npy_source;

/* Reads a header, from the magic to its last byte. Errors: those of take, format (malformed, cut),
 * unsupported (a version, several fields, axes too many), memory. */
int npy_header_read(npy_header *h, const npy_source *s, kv_err *e);

/* An error of code format for a text that ends early: `x.npy: cut within its data: …`. */
int npy_cut(const char *name, const char *within, int64_t missing, int64_t n, kv_err *e);

/* Appends the header that numpy.save writes, byte for byte. kind and width as above. Error: memory.
 */
int npy_header_print(buf *out, char kind, int width, int ndim, const int64_t *shape, kv_err *e);

#endif
