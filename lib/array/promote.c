/* The dtype of the result of two arrays: dtypes have ranks, and the higher one holds the
 * lower, but for two pairs that hold each other's numbers neither way. */
#include "array/promote.h"

static int rank_of(kv_dtype dtype)
{
    switch (dtype) {
    case KV_BOOL:
        return 0;
    case KV_UINT8:
        return 1;
    case KV_INT8:
        return 2;
    case KV_INT32:
        return 3;
    case KV_INT64:
        return 4;
    case KV_FLOAT16:
        return 5;
    case KV_BFLOAT16:
        return 6;
    case KV_FLOAT32:
        return 7;
    case KV_FLOAT64:
        return 8;
    }
    return 0;
}

kv_dtype promote_dtypes(kv_dtype a, kv_dtype b)
{
    kv_dtype low = rank_of(a) < rank_of(b) ? a : b, high = low == a ? b : a;
    if (low == KV_FLOAT16 && high == KV_BFLOAT16)
        return KV_FLOAT32;
    if (low == KV_UINT8 && high == KV_INT8)
        return KV_INT32;
    return high;
}
