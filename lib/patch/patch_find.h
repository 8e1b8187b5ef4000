/* Finds the units of two blocks that differ. */
#ifndef PATCH_PATCH_FIND_H
#define PATCH_PATCH_FIND_H

#include <stdint.h>

/* Compares n units of 1, 2, 4 or 8 bytes, at any addresses. Puts the number of each that differs,
 * counted from `first` on, to `at`, its bits in b to `values`, and returns how many there are. Both
 * have room for n. */
int64_t patch_find(int64_t *at, void *values, const void *a, const void *b, int64_t n, int unit,
                   int64_t first);

#endif
