/* Rows by number, and the sum of row_sparse arrays, by the rules that array/device.h states. */
#ifndef CPU_ROWS_H
#define CPU_ROWS_H

#include "array/device.h"

void rows_gather(void *dst, kv_dtype to, const void *src, kv_dtype from, const int64_t *at,
                 int64_t n, int64_t row, bool far);
void rows_sum(void *dst, const int64_t *ids, int64_t ndst, const dev_rows *src, int64_t nsrc,
              kv_dtype dtype, int64_t row, void *room);

#endif
