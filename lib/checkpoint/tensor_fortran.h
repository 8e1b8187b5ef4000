/* Tensors whose first index runs fastest in the file, given out row by row.
 *
 * A band is a part of the result of some megabytes. It is cut into boxes: some indices of one axis,
 * one index of each axis before it, all of each behind it. For every choice of those behind it, the
 * file has the box's elements at equal distances, side by side for the first axis. So elements are
 * gathered along that axis, and no more than a band and a window on the file are in memory. Where
 * distances are small, the file is read in one go. A tensor with a long first axis and more rows
 * than a band has is read in short runs: that is slow, but needs nothing else. */
#ifndef CHECKPOINT_TENSOR_FORTRAN_H
#define CHECKPOINT_TENSOR_FORTRAN_H

#include "checkpoint/checkpoint_build.h"

/* All zero is nothing. */
typedef struct tensor_fortran {
    int64_t tensor;       /* its number + 1 */
    const input *in;      /* that has its data from `from` on */
    int64_t from;
    int64_t begin, end;   /* the band: bytes of the tensor */
    char *band;
    int64_t cap;
    char *window;         /* on the data: from byte `at` on */
    int64_t at, n;
    char *tile;           /* some lines of a matrix */
} tensor_fortran;

/* Returns true if the next call is for the same tensor as the last one. */
static inline bool tensor_fortran_is(const tensor_fortran *f, int64_t i)
{
    return f->tensor == i + 1;
}

/* Begins with tensor i, whose data stand in `in` from its byte `from` on, in the order of the file.
 */
void tensor_fortran_begin(tensor_fortran *f, int64_t i, const input *in, int64_t from);

/* Makes *data point to n bytes (TENSOR_BLOCK at most) of that tensor, from its byte `at` on in the
 * order of rows, until the next call. Errors: io, memory. */
int tensor_fortran_read(tensor_fortran *f, const tensor_info *t, const void **data, int64_t at,
                        int64_t n, kv_err *e);

void tensor_fortran_release(tensor_fortran *f);

#endif
