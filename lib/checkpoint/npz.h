/* npz archives are written as numpy.savez writes them: stored members in the order given, each an
 * npy file called like its tensor with .npy behind it. The same call gives the same bytes, those of
 * numpy.savez: its time is 1980-01-01.
 *
 * Where everything stands follows from names, types and shapes, so data can be written in blocks,
 * in any order, by several threads. The text of a layout is all that is not data, in the order of
 * the file: a piece before the data of each tensor, and one behind the last. Only checksums are
 * missing in it until all data were added.
 *
 * Members and archives beyond 2 GB have zip64's fields. Source of the format: PKWARE's APPNOTE.TXT
 * 6.3.10, and Python's zipfile for what is left open there.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "checkpoint/checkpoint_write.h"

/* Where a tensor goes. */
typedef struct out_tensor {
    int64_t file;
    int64_t begin, bytes; /* of its data in the file */
    uint32_t before;      /* of an npz: the share of its npy header in the checksum of its member */
    atomic_uint crc;      /* of the data that were added */
} out_tensor;

/* Lays out n tensors, whose names stand there once and are UTF-8, in to[0] and on, and appends the
 * text. *directory: where in the text the lines of members begin. path is for messages. Errors:
 * dtype (a type that npz does not have; the hint names --dtype), value (a name that is too long;
 * sizes beyond 2^63), memory. */
int npz_lay_out(buf *text, int64_t *directory, out_tensor *to, const checkpoint_entry *tensors,
                int64_t n, const char *path, kv_err *e);

/* Takes n bytes of the data, from their byte `at` on, into the checksum. Blocks may come in any
 * order and from several threads, each byte once. */
void npz_add(out_tensor *t, const void *data, int64_t at, int64_t n);

/* Puts the checksums into the text, once all data were added. */
void npz_put_sums(buf *text, int64_t directory, const out_tensor *tensors, int64_t n);
