/* Elements that changed their bits, from one version of an array to the next: marks that say when,
 * and a code of those that changed behind one version, for an array that holds that version.
 *
 * A mark is a byte an element: the number of the version that gave the element its bits, counted
 * from a base; 0 for the base and before. The code is made block by block, each in the shortest of
 * three forms:
 *
 *   bytes     meaning
 *   2         how many elements the block brings, and its form in the two highest bits
 *   ...       GAPS: a byte for each: how many elements lie between it and the one before; 255
 *             stands for 255 elements that are skipped, and the next byte goes on from there
 *             BITS: a bit for each element of the block, the first one in the lowest bit
 *             ALL: nothing, because all elements of the block follow
 *   ...       the elements, in their order
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { CHANGES_BLOCK = 4096, CHANGES_MARKS = 255 /* the largest mark */ };

/* marks[i] = mark where element i of before and after differ. Elements have 1, 2, 4 or 8 bytes. */
void changes_mark(uint8_t *marks, uint8_t mark, const void *before, const void *after, int size,
                  int64_t n);

/* Counts marks from a base that is `by` versions later: those up to `by` become 0. */
void changes_age(uint8_t *marks, uint8_t by, int64_t n);

/* Bytes that the code of a block of n elements has at most. */
static inline int64_t changes_bound(int size, int64_t n)
{
    return 2 + n * size;
}

/* Writes the code of a block of n <= CHANGES_BLOCK elements: those whose mark is above `above`.
 * Returns its bytes. */
int64_t changes_encode(void *to, const uint8_t *marks, uint8_t above, const void *elements,
                       int size, int64_t n);

/* A block as it was read: the elements stand at elements[0] and on, which may be no address that
 * an element could have, and belong at the places at[0] and on; `all` of the block: at is not
 * filled. */
typedef struct changes_block {
    int64_t count;
    bool all;
    const char *elements;
    uint16_t at[CHANGES_BLOCK];
} changes_block;

/* Reads the code of a block of n elements, before end. Returns the address behind it; NULL: it is
 * malformed. */
const char *changes_decode(changes_block *out, const char *from, const char *end, int size,
                           int64_t n);

/* to[at[i]] = from[i], for count elements. */
void changes_scatter(void *to, const void *from, const uint16_t *at, int64_t count, int size);
