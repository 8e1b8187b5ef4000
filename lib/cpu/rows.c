/* The sum of row_sparse arrays.
 *
 * All ids ascend, so one walk over the rows of the result meets the rows of every source in turn: a
 * cursor a source says which comes next. The sources that hold a row are added to it at once, so
 * that the half types round once.
 */
#include "cpu/rows.h"

#include <string.h>

#include "cpu/sum.h"

void rows_sum(void *dst, const int64_t *ids, int64_t ndst, const dev_rows *src, int64_t nsrc,
              kv_dtype dtype, int64_t row, void *room)
{
    const void **terms = room;
    int64_t *next = (int64_t *)(void *)(terms + nsrc + 1);
    int64_t bytes = row * kv_dtype_bytes(dtype);
    memset(dst, 0, (size_t)(ndst * bytes));
    for (int64_t i = 0; i < nsrc; i++)
        next[i] = 0;
    for (int64_t k = 0; k < ndst; k++) {
        char *to = (char *)dst + k * bytes;
        int64_t n = 1;
        terms[0] = to;
        for (int64_t i = 0; i < nsrc; i++) {
            if (next[i] < src[i].n && src[i].ids[next[i]] == ids[k])
                terms[n++] = (const char *)src[i].data + next[i]++ * bytes;
        }
        sum_elements(to, terms, n, dtype, row);
    }
}
