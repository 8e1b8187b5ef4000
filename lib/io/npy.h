/* One array a file, in numpy's npy format.
 *
 *   offset   size     meaning
 *   0        6        0x93 and NUMPY
 *   6        2        version: a major and a minor byte; 1.0, 2.0 or 3.0
 *   8        2 or 4   n, the length of the header, unsigned, little-endian; 4 bytes from 2.0 on
 *   10, 12   n        the header: a dict of Python, blanks, a newline
 *   10+n…    rest     the elements, without gaps
 *
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 *
 * descr: < little-endian, > big-endian, | neither, then f8 f4 f2 i8 i4 i1 u1 or b1 (a byte of 0 or
 * 1); also i2 and u2, read as int32, u4 and u8, read as int64. With fortran_order the first index
 * runs fastest. Both orders of bytes and of elements are read, by checkpoint.h: such a file is a
 * checkpoint of one tensor. Version 1.0, <, row-major is written, byte for byte what numpy.save
 * writes. bfloat16 has no descr of its own, and float32 holds each of its numbers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "array/kv_array.h"
#include "base/buf.h"

/* Writes a to f, bfloat16 as float32. Blocks until what writes a has ended. Errors: io, memory. */
int npy_write(FILE *f, const char *name, kv_array *a, kv_err *e);

/* ---- The header, which members of npz archives have too ---- */

#define NPY_DESCR_MAX 40

typedef struct npy_header {
    char descr[NPY_DESCR_MAX + 1]; /* as the file has it, cut */
    char kind;    /* f, i, u, b (bool), c (complex: two floats); 0: descr is not known */
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
