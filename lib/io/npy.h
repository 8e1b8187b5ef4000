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
 * writes. bfloat16 has no descr of its own.
 */
#ifndef IO_NPY_H
#define IO_NPY_H

#include <stdio.h>

#include "array/kv_array.h"

/* Writes a to f. Blocks until what writes a has ended. Errors: io, unsupported (bfloat16), memory.
 */
int npy_write(FILE *f, const char *name, kv_array *a, kv_err *e);

#endif
