/* Sums that run along an axis. */
#ifndef ARRAY_SCAN_H
#define ARRAY_SCAN_H

#include "kv_array.h"

/* Element i of each line along axis is the sum of elements 0 to i: of a's shape, and of dtype `to`,
 * a float for floats and int64 for others. Floats add in float64 and are rounded once; the order
 * does not depend on the number of threads. Errors: index (axis), memory, interrupted. */
int scan_sum(kv_array **out, kv_array *a, int64_t axis, kv_dtype to, kv_err *e);

#endif
