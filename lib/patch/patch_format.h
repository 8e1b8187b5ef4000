/* The file of a patch.
 *
 * It is a safetensors file whose metadata have the text PATCH_MARK, with PATCH_VERSION. Its tensors
 * are of type U8; names of keys stand in the index alone, so that no key can collide with them:
 *
 *   name        holds
 *   index       the keys, compressed: see below
 *   hashes      16 bytes each, in the order of the keys: of A's key, unless it is new, then of B's,
 *               unless it is gone or the same
 *   0, 1, …     the data of the keys that are changed, reformed or new, in their order
 *
 * The index is its size without compression, 8 bytes, and one zstd frame with a checksum. Numbers
 * in it are varints (7 bits a byte, the lowest first, the top bit set in all but the last); a text
 * is its length and its bytes; a form is the name of a type, the number of dimensions, and those.
 *
 *   number      of metadata of B, and of each its name and its text
 *   number      of keys: those of B in their order, then those that are gone
 *   of each     its name; its state, a byte (patch_state); its form in B, of one that is gone in A;
 *               if it is reformed its form in A; if it has data the number of units that differ
 *
 * Data are changes of units: an element of 1, 2, 4 or 8 bytes, or a byte of types of any other
 * width. They stand in chunks, in the order of their places, that do not overlap. What is reformed
 * or new has every unit. A chunk:
 *
 *   varint      the bytes that follow
 *   byte        0: units at places of their own; 1: of one range
 *   varint      the units between the chunk before, or the begin of the key, and its first
 *   varint      n, their number: 1 to PATCH_CHUNK, of a range to PATCH_RANGE
 *   byte        (places) the bytes of a gap, that is of the units between one and the next: 0 to 8,
 *               or PATCH_SHORT
 *   streams     (places) the lowest bytes of all n - 1 gaps, then the second ones, …; if they are
 *               short: a byte each; where that is 255 so much more is added as follows: a byte, the
 *               bytes of each, 0 to 8, and a stream for the lowest ones, then the second ones, …
 *   byte        of units of several bytes: 0: a stream for each byte of a unit; 1: one for all
 *   streams     of the values, which are the bits that B has
 *   4 bytes     the low half of the XXH64 of the others, behind their number
 *
 * A stream is a byte that says how it is stored, and: 0: its bytes; 1: a varint, the length of a
 * zstd frame, and that; 2: one byte, that all of it are.
 *
 * What comes out is always compared with B's hashes. A patch that is joined to others makes nothing
 * that could be compared, so chunks have sums of their own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/xxh64.h"
#include "checkpoint/tensor_type.h"
#include "tensors/walk.h"

#define PATCH_MARK    "kvctl.patch"
#define PATCH_VERSION "1"
#define PATCH_INDEX   "index"
#define PATCH_HASHES  "hashes"

/* Where names take as much, a header of safetensors has no room for them either. */
#define PATCH_INDEX_MAX ((int64_t)256 << 20)

#define PATCH_CHUNK ((int64_t)1 << 15)
/* The bytes of a piece of a walk, where units are bytes: Q8_K has 292 for 256 elements. */
#define PATCH_RANGE ((int64_t)3 << 16)

#define PATCH_SHORT 9

#define PATCH_HASH 16 /* bytes of XXH3-128 */

typedef enum patch_state {
    PATCH_SAME,     /* in A and B */
    PATCH_CHANGED,  /* in both, with other bits */
    PATCH_NEW,      /* only in B */
    PATCH_REFORMED, /* in both, of another dtype or shape */
    PATCH_GONE      /* only in A */
} patch_state;

/* The bytes of the sum of a chunk. */
#define PATCH_SUM 4

/* The sum of n bytes. */
static inline uint32_t patch_sum(const void *data, int64_t n)
{
    return (uint32_t)xxh64(data, (size_t)n);
}

/* The bytes of a unit of a type. */
static inline int patch_unit(tensor_type t)
{
    int64_t bytes = tensor_type_run_bytes(t);
    return tensor_type_run(t) == 1 && bytes <= 8 ? (int)bytes : 1;
}

/* Numbers of 7 bits a byte, the lowest first; the top bit is set in all bytes but the last. */
#define VARINT_MAX 9 /* bytes of a number below 2^63 */

static inline void varint_put(buf *out, int64_t n)
{
    uint64_t left = (uint64_t)n;
    for (; left > 127; left >>= 7)
        buf_char(out, (char)(left | 128));
    buf_char(out, (char)left);
}

/* Bytes that are read from the front. */
typedef struct varint_reader {
    const unsigned char *at, *end;
} varint_reader;

/* Takes a number below 2^63; false: there is none. */
static inline bool varint_take(varint_reader *r, int64_t *n)
{
    uint64_t x = 0;
    for (int i = 0; i < VARINT_MAX && r->at < r->end; i++) {
        unsigned char c = *r->at++;
        x |= (uint64_t)(c & 127) << (7 * i);
        if (c < 128) {
            *n = (int64_t)x;
            return true;
        }
    }
    return false;
}
