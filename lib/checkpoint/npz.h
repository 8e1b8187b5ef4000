/* npz archives are written as numpy.savez writes them: stored members in the order given, each an
 * npy file called like its tensor with .npy behind it. The same call gives the same bytes, those of
 * numpy.savez: its time is 1980-01-01.
 *
 * Where everything stands follows from names, types and shapes, so data can be written in blocks,
 * in any order, by several threads:
 *
 *   npz_lay_out(&out, tensors, n, &size, path, e);      where the data of each go
 *   pwrite(fd, …, out.entries[i].begin + at); npz_add(&out.entries[i], …);     each block once
 *   npz_finish(&out, fd, path, e);                       all that is not data
 *
 * Members and archives beyond 2 GB have zip64's fields. Source of the format: PKWARE's APPNOTE.TXT
 * 6.3.10, and Python's zipfile for what is left open there.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "checkpoint/checkpoint_write.h"

/* Where a tensor of an archive goes. */
typedef struct npz_entry {
    int64_t begin, bytes; /* of its data in the file */
    int64_t header;       /* where its member begins */
    int64_t npy;          /* bytes of its npy header */
    uint32_t before;      /* the share of that in the checksum of the member */
    atomic_uint crc;      /* of the data that were added */
} npz_entry;

typedef struct npz_out {
    npz_entry *entries; /* n of them */
    int64_t n;
    buf text;          /* the headers of all members, then from `directory` on the directory */
    int64_t directory;
} npz_out;

/* Lays out n tensors, whose names stand there once and are UTF-8. *size: the bytes of the whole
 * file. path is for messages. Errors: dtype (a type that npz does not have; the hint names
 * --dtype), value (a name that is too long; sizes beyond 2^63), memory. To be released, after a
 * failure too. */
int npz_lay_out(npz_out *out, const checkpoint_entry *tensors, int64_t n, int64_t *size,
                const char *path, kv_err *e);
void npz_release(npz_out *out);

/* Takes n bytes of the data, from their byte `at` on, into the checksum. Blocks may come in any
 * order and from several threads, each byte once. */
void npz_add(npz_entry *entry, const void *data, int64_t at, int64_t n);

/* Writes headers and directory to a file, once all data were added. Error: io. */
int npz_finish(npz_out *out, int fd, const char *path, kv_err *e);
