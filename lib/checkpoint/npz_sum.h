/* The checksum of a member of an npz archive, which is known to be right once all of the member has
 * been read: by one thread or by several, in any order. Its data are counted in pieces; of each the
 * first one that reads it whole computes the checksum. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kv_err.h"

#define NPZ_SUM_PIECE ((int64_t)1 << 16) /* bytes of a member's data */

/* The message for a damaged member. */
#define NPZ_SUM_WRONG "damaged: its checksum is another one"

typedef struct npz_sum {
    uint32_t crc;         /* as the archive has it, of the whole member */
    uint32_t header_crc;  /* of what stands before the data */
    int64_t header_bytes; /* of that */
    int64_t bytes;        /* of the data */
    atomic_uint added;    /* checksums of pieces, added up */
    atomic_llong left;    /* pieces that were not read yet */
    atomic_ullong few;    /* bits of pieces that were read, where 64 are enough */
    _Atomic(atomic_ullong *) many; /* else; made by the first one that reads */
} npz_sum;

/* The piece that a reader is in. All zero: none. */
typedef struct npz_sum_run {
    int64_t tensor; /* its number + 1 */
    int64_t at;     /* the next byte */
    uint32_t crc;   /* of its piece up to there */
    bool whole;     /* that piece was read from its begin on */
} npz_sum_run;

/* header: the bytes of the member before its data, of which it has `bytes`. */
void npz_sum_init(npz_sum *s, uint32_t crc, const void *header, int64_t nheader, int64_t bytes);
void npz_sum_release(npz_sum *s);

/* Takes n bytes of the data, from their byte `at` on, and sets *right to false when all have been
 * read and the checksum is another one; then it stays false. Error: memory. */
int npz_sum_add(npz_sum *s, npz_sum_run *run, int64_t tensor, const void *data, int64_t at,
                int64_t n, bool *right, kv_err *e);

/* Returns true once all pieces have been read. */
bool npz_sum_known(npz_sum *s);

/* Returns true if these are the bytes of a member: its header and then data of this checksum. */
bool npz_sum_right(const npz_sum *s, uint32_t data_crc);
