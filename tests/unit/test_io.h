/* Arrays of every dtype with difficult elements, for the tests of files and printing. */
#pragma once

#include <math.h>

#include "array/kv_array.h"
#include "io/scalar.h"
#include "test.h"

static const kv_dtype all_dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_FLOAT16, KV_BFLOAT16, KV_UINT8,
                                      KV_INT32,   KV_INT8,    KV_INT64,   KV_BOOL};

#define NDTYPES ((int)(sizeof all_dtypes / sizeof *all_dtypes))

static inline uint64_t io_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* An array of these numbers, which the dtype must hold. */
static inline kv_array *io_array(kv_dtype dtype, int ndim, const int64_t *shape, const double *x)
{
    kv_array *a = MADE(kv_array, kv_array_new, dtype, ndim, shape, (kv_ctx){0});
    void *data = array_data(a);
    for (int64_t i = 0; i < kv_array_size(a); i++)
        CHECK_INT(scalar_set(dtype, data, i, x[i]), SCALAR_FITS);
    return a;
}

/* Random bits as elements; nan in its one form, so that bytes can be compared. */
static inline kv_array *io_random_array(kv_dtype dtype, int ndim, const int64_t *shape,
                                        uint64_t *state)
{
    kv_array *a = MADE(kv_array, kv_array_new, dtype, ndim, shape, (kv_ctx){0});
    void *data = array_data(a);
    for (int64_t i = 0; i < kv_array_size(a); i++) {
        uint64_t bits = io_random(state);
        bits = dtype == KV_BOOL ? bits & 1 : bits;
        size_t size = (size_t)kv_dtype_bytes(dtype);
        memcpy((char *)data + (size_t)i * size, &bits, size);
        if (kv_dtype_is_float(dtype) && isnan(scalar_float(dtype, data, i)))
            scalar_set(dtype, data, i, NAN);
    }
    return a;
}

/* Whether two arrays have the same dtype, shape and bytes. */
static inline int io_same(kv_array *a, kv_array *b)
{
    const void *x, *y;
    if (kv_array_dtype(a) != kv_array_dtype(b) || !kv_array_same_shape(a, b))
        return 0;
    CHECK_OK(kv_array_read(a, &x, &e));
    CHECK_OK(kv_array_read(b, &y, &e));
    return memcmp(x, y, (size_t)kv_array_bytes(a)) == 0;
}

/* Shapes that files must keep. */
static const struct {
    int ndim;
    int64_t shape[4];
} io_shapes[] = {
    {2, {3, 4}}, {2, {1, 1}}, {2, {1, 7}},    {2, {5, 1}},       {1, {6}},
    {1, {1}},    {0, {0}},    {3, {2, 3, 4}}, {4, {2, 1, 3, 2}}, {2, {0, 3}},
    {2, {3, 0}}, {1, {0}},    {3, {2, 0, 4}}, {2, {40, 50}},
};

#define NSHAPES ((int)(sizeof io_shapes / sizeof *io_shapes))
