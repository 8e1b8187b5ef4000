/* Products of vectors and matrices: row i of the result adds a[i, k] times row k of b, for k in
 * order, so that the inner loop runs along rows whatever the shapes are. Rows are cut into pieces
 * that stay in the L1 cache. */
#include "array/dot.h"

#include <stddef.h>
#include <string.h>

#include "array/reduce.h"
#include "base/mem.h"

/* Elements of a row of the result that are worked on together. */
enum { PIECE = 1024 };

#define PRODUCT(name, T)                                                                           \
    static void name(void *to, const void *left, const void *right, int64_t n, int64_t depth,      \
                     int64_t m)                                                                    \
    {                                                                                              \
        T block[PIECE];                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                          \
            for (int64_t c = 0; c < m; c += PIECE) {                                               \
                int64_t w = m - c < PIECE ? m - c : PIECE;                                         \
                T *restrict out = (T *)to + i * m + c;                                             \
                memset(out, 0, (size_t)w * sizeof(T));                                             \
                memset(block, 0, (size_t)w * sizeof(T));                                           \
                for (int64_t k = 0; k < depth; k++) {                                              \
                    const T x = ((const T *)left)[i * depth + k];                                  \
                    const T *restrict y = (const T *)right + k * m + c;                            \
                    for (int64_t s = 0; s < w; s++)                                                \
                        block[s] += x * y[s];                                                      \
                    if ((k + 1) % REDUCE_BLOCK && k + 1 < depth)                                   \
                        continue;                                                                  \
                    for (int64_t s = 0; s < w; s++)                                                \
                        out[s] += block[s];                                                        \
                    memset(block, 0, (size_t)w * sizeof(T));                                       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* uint64_t for integers, because it wraps. */
PRODUCT(product_f32, float)
PRODUCT(product_f64, double)
PRODUCT(product_i64, uint64_t)

static int check(const kv_array *a, const kv_array *b, kv_err *e)
{
    char one[160], two[160];
    int an = kv_array_ndim(a), bn = kv_array_ndim(b);
    bool fits = an >= 1 && an <= 2 && bn >= 1 && bn <= 2 &&
                kv_array_shape(a)[an - 1] == kv_array_shape(b)[0];
    if (fits)
        return KV_OK;
    kv_shape_text(one, sizeof one, an, kv_array_shape(a));
    kv_shape_text(two, sizeof two, bn, kv_array_shape(b));
    kv_err_set(e, KV_E_SHAPE,
               "dot() of shapes %s and %s: the last axis of the first must be as long "
               "as the first axis of the second",
               one, two);
    if (an > 2 || bn > 2 || an == 0 || bn == 0)
        kv_err_hint(e, "dot() takes vectors and matrices");
    return KV_E_SHAPE;
}

static kv_dtype wide_dtype(kv_dtype dtype)
{
    if (dtype == KV_FLOAT64)
        return KV_FLOAT64;
    return kv_dtype_is_float(dtype) ? KV_FLOAT32 : KV_INT64;
}

/* a, b and the result in the type that the products are added in. */
static int multiply(kv_array *wide, kv_array *a, kv_array *b, kv_err *e)
{
    const void *left, *right;
    void *to;
    int an = kv_array_ndim(a), bn = kv_array_ndim(b);
    int64_t depth = kv_array_shape(b)[0];
    int64_t n = an == 2 ? kv_array_shape(a)[0] : 1, m = bn == 2 ? kv_array_shape(b)[1] : 1;
    int rc = kv_array_read(a, &left, e);
    if (rc || (rc = kv_array_read(b, &right, e)) || (rc = kv_array_write(wide, &to, e)))
        return rc;
    if (kv_array_size(wide) == 0)
        return KV_OK;
    if (kv_array_dtype(wide) == KV_FLOAT32)
        product_f32(to, left, right, n, depth, m);
    else if (kv_array_dtype(wide) == KV_FLOAT64)
        product_f64(to, left, right, n, depth, m);
    else
        product_i64(to, left, right, n, depth, m);
    return KV_OK;
}

/* a in dtype, and then in the wider one: another reference where a is so already. */
static int convert(kv_array **out, kv_array *a, kv_dtype dtype, kv_dtype wide, kv_ctx ctx,
                   kv_err *e)
{
    kv_array *narrow = kv_array_ref(a);
    int rc = KV_OK;
    if (kv_array_dtype(a) != dtype) {
        kv_array_unref(narrow);
        if ((rc = kv_array_dup(&narrow, a, dtype, ctx, e)))
            return rc;
    }
    if (dtype == wide) {
        *out = narrow;
        return KV_OK;
    }
    rc = kv_array_dup(out, narrow, wide, ctx, e);
    kv_array_unref(narrow);
    return rc;
}

int dot_arrays(kv_array **out, kv_array *a, kv_array *b, kv_dtype dtype, kv_err *e)
{
    kv_array *left = NULL, *right = NULL, *product = NULL;
    kv_dtype wide = wide_dtype(dtype);
    kv_ctx ctx = kv_array_ctx(a);
    int64_t shape[2];
    int ndim = 0, rc = check(a, b, e);
    if (rc)
        return rc;
    if (kv_array_ndim(a) == 2)
        shape[ndim++] = kv_array_shape(a)[0];
    if (kv_array_ndim(b) == 2)
        shape[ndim++] = kv_array_shape(b)[1];
    if ((rc = convert(&left, a, dtype, wide, ctx, e)) ||
        (rc = convert(&right, b, dtype, wide, ctx, e)) ||
        (rc = kv_array_new_raw(&product, wide, ndim, shape, ctx, e)) ||
        (rc = multiply(product, left, right, e)))
        goto out;
    if (wide != dtype)
        rc = kv_array_dup(out, product, dtype, ctx, e);
    else
        *out = kv_array_ref(product);
out:
    kv_array_unref(product);
    kv_array_unref(right);
    kv_array_unref(left);
    return rc;
}
