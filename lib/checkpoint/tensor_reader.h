/* The data of tensors, block by block, in one form whatever the file: little-endian, row-major,
 * packed. */
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/file_window.h"

/* Reads for one thread at a time; several may read from one checkpoint. */
typedef struct tensor_reader tensor_reader;

/* A block has at most so many bytes. */
#define TENSOR_BLOCK ((int64_t)4 << 20)

/* window_bytes: how much of a file it may have mapped at a time, TENSOR_BLOCK at least; 0: nothing,
 * blocks are read into a buffer of their size. Error: memory. */
int tensor_reader_new(tensor_reader **out, const checkpoint *c, int64_t window_bytes, kv_err *e);
void tensor_reader_free(tensor_reader *r); /* NULL is allowed */

/* Maps files that stand in small pages too; what cannot be mapped is read block by block. That is
 * quicker where blocks are computed with, slower where they are written as they are. */
void tensor_reader_map_always(tensor_reader *r);
static inline void tensor_reader_release(tensor_reader **r)
{
    tensor_reader_free(*r);
}
#define own_tensor_reader OWN(tensor_reader_release) tensor_reader
const checkpoint *tensor_reader_of(const tensor_reader *r); /* what it reads from */

/* Makes *data point to n bytes of tensor i from its byte `at` on, until the next call; n is at most
 * TENSOR_BLOCK, and at and n are whole runs of the type. Any order is allowed; from a deflated
 * tensor a later place is quick, an earlier one starts from its begin. Elements of a strided one,
 * such as in Fortran order, are gathered; where it is deflated it is inflated into a file for that.
 * Errors: io (also: the file became shorter), format (damaged), memory, unsupported, interrupted.
 * The checksum of a member of an npz is known, and its error given, when the last of it has been
 * read: by blocks that begin at multiples of 64 KiB or follow each other, in any reader. */
int tensor_read(tensor_reader *r, const void **data, int64_t i, int64_t at, int64_t n, kv_err *e);

/* Maps all bytes of tensor i, for any threads, until the window is closed. Before their results are
 * believed it is to be checked. NULL: they do not stand in a file as they are, or cannot be mapped.
 */
const char *tensor_map(file_window *w, const checkpoint *c, int64_t i);

/* Tells that tensor i is read in order up to its byte `end`: of a strided one as much is gathered
 * at a time as the window may hold. Without it a block is, which costs more the shorter it is. */
void tensor_reader_ahead(tensor_reader *r, int64_t i, int64_t end);

/* To be called when the last block has been used, and before its results are believed: a file that
 * shrank meanwhile is an error, of code io. */
int tensor_reader_check(const tensor_reader *r, kv_err *e);
