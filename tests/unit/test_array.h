/* Arrays of numbers for tests. */
#pragma once

#include "kv_array.h"
#include "test.h"

static const kv_ctx cpu0 = {KV_CPU, 0};

/* n numbers in an order that does not repeat for 101 elements; whole ones for integers. */
static inline kv_array *array_numbers(int ndim, const int64_t *shape, kv_dtype dtype)
{
    kv_array *a = NULL, *b = NULL;
    void *data = NULL;
    CHECK_OK(kv_array_new(&a, KV_FLOAT64, ndim, shape, cpu0, &e));
    CHECK_OK(kv_array_write(a, &data, &e));
    for (int64_t i = 0; i < kv_array_size(a); i++)
        ((double *)data)[i] = (double)(i * 37 % 101 - 50) / (kv_dtype_is_float(dtype) ? 7 : 1);
    CHECK_OK(kv_array_dup(&b, a, dtype, cpu0, &e));
    kv_array_unref(a);
    return b;
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

static inline const void *array_elements(kv_array *a)
{
    const void *data = NULL;
    CHECK_OK(kv_array_read(a, &data, &e));
    return data;
}

/* The elements of a, which is released, as binary64. */
static inline void array_read_all(kv_array *a, double *out)
{
    own_array *wide = NULL;
    CHECK_OK(kv_array_dup(&wide, a, KV_FLOAT64, cpu0, &e));
    memcpy(out, array_elements(wide), (size_t)kv_array_bytes(wide));
    kv_array_unref(a);
}
