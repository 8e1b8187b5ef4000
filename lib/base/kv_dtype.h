/* The types of an array's elements.
 *
 * This header is public; it is installed beside kvstore.h, which includes it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kv_err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every dtype: constant, its number (that of MXNet's API and files), name, bytes an element. */
#define KV_DTYPE_MAP(X)                                                                            \
    X(KV_FLOAT32, 0, "float32", 4)                                                                 \
    X(KV_FLOAT64, 1, "float64", 8)                                                                 \
    X(KV_FLOAT16, 2, "float16", 2)                                                                 \
    X(KV_UINT8, 3, "uint8", 1)                                                                     \
    X(KV_INT32, 4, "int32", 4)                                                                     \
    X(KV_INT8, 5, "int8", 1)                                                                       \
    X(KV_INT64, 6, "int64", 8)                                                                     \
    X(KV_BOOL, 7, "bool", 1)                                                                       \
    X(KV_BFLOAT16, 12, "bfloat16", 2)

typedef enum kv_dtype {
#define KV_DTYPE_ENUM(constant, number, name, bytes) constant = number,
    KV_DTYPE_MAP(KV_DTYPE_ENUM)
#undef KV_DTYPE_ENUM
} kv_dtype;

#define KV_DTYPE_END 13 /* one past the largest number, for tables */

const char *kv_dtype_name(kv_dtype dtype);          /* "float32" */
int64_t kv_dtype_bytes(kv_dtype dtype);             /* of one element */
bool kv_dtype_is_float(kv_dtype dtype);
/* Of its name, or of a short one, f32 and bf16, of any case. Error: dtype. */
int kv_dtype_parse(kv_dtype *dtype, const char *name, kv_err *e);

#ifdef __cplusplus
}
#endif
