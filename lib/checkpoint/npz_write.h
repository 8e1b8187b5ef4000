/* Writing npz archives, as numpy.savez writes them: stored members in the order given, each an npy
 * file called like its tensor with .npy behind it. The same call gives the same bytes, those of
 * numpy.savez: its time is 1980-01-01.
 *
 * Where everything stands follows from names, types and shapes, so data can be written in blocks,
 * in any order, by several threads:
 *
 *   npz_lay_out(entries, n, &size, path, e);           where the data of each go
 *   pwrite(fd, …, entries[i].begin + at); npz_add(&entries[i], …, at, n);      each block once
 *   npz_finish(fd, path, entries, n, e);               all that is not data
 *
 * Members and archives beyond 2 GB have zip64's fields. Source of the format: PKWARE's APPNOTE.TXT
 * 6.3.10, and Python's zipfile for what is left open there.
 */
#ifndef CHECKPOINT_NPZ_WRITE_H
#define CHECKPOINT_NPZ_WRITE_H

#include <stdatomic.h>
#include <stdint.h>

#include "checkpoint/tensor_type.h"
#include "kv_err.h"

/* A tensor of an archive that is to be written. */
typedef struct npz_entry {
    const char *name;
    tensor_type type;
    int ndim;
    const int64_t *shape;
    int64_t begin;    /* out: where its data begin in the file */
    int64_t bytes;    /* out: of its data */
    int64_t header;   /* out: where its member begins */
    atomic_uint crc;  /* of the data that were added */
} npz_entry;

/* Returns true if npz has this type: BF16 and floats of 8 bits and less it has not. */
bool npz_has_type(tensor_type t);

/* Fills in what is marked `out`, and 0 as crc. *size: the bytes of the whole file. path is for
 * messages. Errors: dtype (a type that npz does not have; the hint names --dtype), value (a name
 * that is not UTF-8, stands twice or is too long; sizes beyond 2^63), memory, unsupported (a build
 * without zlib). */
int npz_lay_out(npz_entry *entries, int64_t n, int64_t *size, const char *path, kv_err *e);

/* Takes n bytes of the data, from their byte `at` on, into the checksum. Blocks may come in any
 * order and from several threads, each byte once. */
void npz_add(npz_entry *entry, const void *data, int64_t at, int64_t n);

/* Writes headers and directory to a file, once all data were added. Errors: io, memory. */
int npz_finish(int fd, const char *path, const npz_entry *entries, int64_t n, kv_err *e);

#endif
