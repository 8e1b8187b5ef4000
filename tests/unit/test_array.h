/* Arrays of numbers for tests. */
#pragma once

#include "kv_array.h"
#include "test.h"

static const kv_ctx cpu0 = {KV_CPU, 0};

/* An array whose element i, counted by rows, is a double that follows from i. */
#define ARRAY_OF(dtype, ndim, shape, ctx, element)                                                 \
    ({                                                                                             \
        own_array *array_wide = MADE(kv_array, kv_array_new, KV_FLOAT64, ndim, shape, cpu0);       \
        double *array_x = array_data(array_wide);                                                  \
        for (int64_t i = 0; i < kv_array_size(array_wide); i++)                                    \
            array_x[i] = (double)(element);                                                        \
        MADE(kv_array, kv_array_dup, array_wide, dtype, ctx);                                      \
    })

/* n numbers in an order that does not repeat for 101 elements; whole ones for integers. */
static inline kv_array *array_numbers(int ndim, const int64_t *shape, kv_dtype dtype)
{
    return ARRAY_OF(dtype, ndim, shape, cpu0,
                    (double)(i * 37 % 101 - 50) / (kv_dtype_is_float(dtype) ? 7 : 1));
}

/* A vector of n numbers in a dtype. */
static inline kv_array *array_vector(kv_dtype dtype, int n, const double *x)
{
    kv_array *a = NULL, *b = NULL;
    CHECK_OK(kv_array_wrap(&a, (void *)(uintptr_t)x, KV_FLOAT64, 1, (int64_t[]){n}, cpu0, NULL,
                           NULL, &e));
    CHECK_OK(kv_array_dup(&b, a, dtype, cpu0, &e));
    kv_array_unref(a);
    return b;
}

/* The elements of a, which is released, as binary64. */
static inline void array_read_all(kv_array *a, double *out)
{
    own_array *wide = MADE(kv_array, kv_array_dup, a, KV_FLOAT64, cpu0);
    memcpy(out, array_elements(wide), (size_t)kv_array_bytes(wide));
    kv_array_unref(a);
}
