/* A function of this library, so that plugins need not link the other one. */
#include "base/xxh64.h"

uint64_t xxh64(const void *data, size_t n)
{
    return XXH64(data, n, 0);
}
