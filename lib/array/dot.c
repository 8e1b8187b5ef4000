/* Products of vectors and matrices.
 *
 * A matrix product is cut into tiles of the result, which threads take one by one. A tile goes
 * through the depth in panels: the panel's rows of a and columns of b are packed into buffers that
 * stay in the caches, in the order in which the kernel reads them, and the kernel multiplies a few
 * rows with the columns of a vector or two, whose sums stay in registers. Packing reads by strides,
 * so a product can be made as that of the transposed matrices, which is done when there are fewer
 * columns than rows of a kernel.
 *
 * Vectors, and a matrix by a vector, need no packing: both factors of a result are runs of memory,
 * which are added as reductions add.
 */
#include "array/dot.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "array/arrange.h"
#include "array/device.h"
#include "array/reduce.h"
#include "base/mem.h"
#include "base/stop.h"
#include "engine/pool.h"

/* Rows and columns of a tile, and the depth of a panel. Packed rows and columns and the tile take
 * some 200 KB each in float32, so that they stay in the L2 cache. DEPTH divides REDUCE_BLOCK. */
enum { ROWS = 32 * DOT_ROWS, COLUMNS = 256, DEPTH = 256 };

/* n, made a multiple of `of`. */
static int64_t whole(int64_t n, int64_t of)
{
    return (n + of - 1) / of * of;
}

/* A factor: how many elements lie between its rows and its columns. */
typedef struct factor {
    const char *data;
    int64_t row, column;
} factor;

/* The operands of a product. Sizes are in elements of `bytes`. */
typedef struct product {
    factor a, b;
    char *to;
    int64_t to_row, to_column;
    int64_t n, depth, m; /* a is (n, depth), b is (depth, m) */
    int64_t bytes, line; /* of an element; elements of DOT_LINE bytes */
    dot_kernel *kernel;
    void (*add)(void *to, const void *from, int64_t n);
    int64_t across, tiles; /* side by side, and all */
    int64_t rows, columns; /* of a tile in its buffer: whole rows and lines of the kernel */
    int64_t deep;          /* of a panel */
    char *room;            /* for each worker the buffers of a tile */
    bool stops;            /* when it is asked to */
    _Atomic bool stopped;
} product;

/* Elements of the buffers of a tile: packed rows of a, packed columns of b, the tile, and the sum
 * of tiles, since one is made for each REDUCE_BLOCK of the depth. */
static int64_t room_of(const product *p)
{
    return p->rows * p->deep + p->columns * p->deep + 2 * p->rows * p->columns;
}

#define ADD(name, T)                                                                               \
    static void name(void *to, const void *from, int64_t n)                                        \
    {                                                                                              \
        T *restrict x = to;                                                                        \
        const T *restrict y = from;                                                                \
        for (int64_t i = 0; i < n; i++)                                                            \
            x[i] += y[i];                                                                          \
    }

ADD(add_f32, float)
ADD(add_f64, double)
ADD(add_i64, uint64_t)

/* to[k][i] = x[i * apart + k * next], for n of `width` columns; the others become 0. */
#define PACK(name, T)                                                                              \
    static void name(void *to, const void *from, int64_t apart, int64_t next, int64_t n,           \
                     int64_t width, int64_t depth)                                                 \
    {                                                                                              \
        T *d = to;                                                                                 \
        const T *x = from;                                                                         \
        for (int64_t k = 0; k < depth && apart == 1; k++)                                          \
            memcpy(d + k * width, x + k * next, (size_t)n * sizeof(T));                            \
        for (int64_t i = 0; i < n && apart != 1; i++)                                              \
            for (int64_t k = 0; k < depth; k++)                                                    \
                d[k * width + i] = x[i * apart + k * next];                                        \
        for (int64_t k = 0; k < depth && n < width; k++)                                           \
            memset(d + k * width + n, 0, (size_t)(width - n) * sizeof(T));                         \
    }

PACK(pack_4, uint32_t)
PACK(pack_8, uint64_t)

/* Packs n rows of a, or columns of b, in groups of `width` that lie one behind the other. */
static void pack(const product *p, char *to, const char *from, int64_t apart, int64_t next,
                 int64_t n, int64_t width, int64_t depth)
{
    for (int64_t i = 0; i < n; i += width) {
        int64_t some = at_most(n - i, width);
        (p->bytes == 4 ? pack_4 : pack_8)(to + i * depth * p->bytes, from + i * apart * p->bytes,
                                          apart, next, some, width, depth);
    }
}

/* Adds a panel of the depth, from k on, to a tile of n rows and m columns at row i, column j. */
static void add_panel(const product *p, char *room, char *tile, int64_t i, int64_t j, int64_t k,
                      int64_t n, int64_t m)
{
    int64_t depth = at_most(p->depth - k, p->deep);
    char *a = room, *b = a + p->rows * p->deep * p->bytes;
    pack(p, a, p->a.data + (i * p->a.row + k * p->a.column) * p->bytes, p->a.row, p->a.column, n,
         DOT_ROWS, depth);
    pack(p, b, p->b.data + (k * p->b.row + j * p->b.column) * p->bytes, p->b.column, p->b.row, m,
         p->line, depth);
    for (int64_t c = 0; c < m; c += p->line)
        for (int64_t r = 0; r < n; r += DOT_ROWS)
            p->kernel(tile + (r * p->columns + c) * p->bytes, p->columns, a + r * depth * p->bytes,
                      b + c * depth * p->bytes, depth);
}

static void make_tile(void *arg, int64_t part, int worker)
{
    product *p = arg;
    int64_t i = part / p->across * ROWS, j = part % p->across * COLUMNS;
    int64_t n = at_most(p->n - i, ROWS), m = at_most(p->m - j, COLUMNS);
    int64_t size = p->rows * p->columns, room = room_of(p);
    char *own = p->room + (p->tiles > 1 ? worker : 0) * room * p->bytes;
    char *tile = own + (room - 2 * size) * p->bytes, *total = tile + size * p->bytes;
    bool several = p->depth > REDUCE_BLOCK;
    memset(tile, 0, (size_t)((several ? 2 : 1) * size * p->bytes));
    for (int64_t k = 0; k < p->depth; k += DEPTH) {
        if (p->stops && stop_shared(&p->stopped))
            return;
        add_panel(p, own, tile, i, j, k, n, m);
        if (several && ((k + DEPTH) % REDUCE_BLOCK == 0 || k + DEPTH >= p->depth)) {
            p->add(total, tile, size);
            memset(tile, 0, (size_t)(size * p->bytes));
        }
    }
    for (int64_t r = 0; r < n; r++) {
        char *to = p->to + ((i + r) * p->to_row + j * p->to_column) * p->bytes;
        const char *from = (several ? total : tile) + r * p->columns * p->bytes;
        for (int64_t c = 0; c < m && p->to_column != 1; c++)
            memcpy(to + c * p->to_column * p->bytes, from + c * p->bytes, (size_t)p->bytes);
        if (p->to_column == 1)
            memcpy(to, from, (size_t)(m * p->bytes));
    }
}

/* A product of matrices that lie row by row, cut into tiles. */
static product product_of(void *to, const void *a, const void *b, int64_t n, int64_t depth,
                          int64_t m, kv_dtype dtype)
{
    const dot_kernels *kernels = dot_kernel_tables(0);
    for (int i = 1; dot_kernel_tables(i); i++)
        kernels = dot_kernel_tables(i); /* the last one is the fastest */
    int64_t bytes = kv_dtype_bytes(dtype);
    product p = {.a = {a, depth, 1},
                 .b = {b, m, 1},
                 .to = to,
                 .to_row = m,
                 .to_column = 1,
                 .n = n,
                 .depth = depth,
                 .m = m,
                 .bytes = bytes,
                 .line = DOT_LINE / bytes,
                 .kernel = dtype == KV_FLOAT32   ? kernels->f32
                           : dtype == KV_FLOAT64 ? kernels->f64
                                                 : kernels->i64,
                 .add = dtype == KV_FLOAT32   ? add_f32
                        : dtype == KV_FLOAT64 ? add_f64
                                              : add_i64};
    if (p.m < p.n && p.m < DOT_ROWS) {
        /* The product of the transposed matrices, which is the transposed product. */
        product was = p;
        p.a = (factor){was.b.data, was.b.column, was.b.row};
        p.b = (factor){was.a.data, was.a.column, was.a.row};
        p.n = was.m;
        p.m = was.n;
        p.to_row = was.to_column;
        p.to_column = was.to_row;
    }
    p.across = whole(p.m, COLUMNS) / COLUMNS;
    p.tiles = whole(p.n, ROWS) / ROWS * p.across;
    p.rows = whole(at_most(p.n, ROWS), DOT_ROWS);
    p.columns = whole(at_most(p.m, COLUMNS), p.line);
    p.deep = at_most(p.depth, DEPTH);
    return p;
}

static int64_t bytes_of(const product *p)
{
    return (p->tiles > 1 ? pool_workers() : 1) * room_of(p) * p->bytes;
}

int64_t dot_product_bytes(int64_t n, int64_t depth, int64_t m, kv_dtype dtype)
{
    product p = product_of(NULL, NULL, NULL, n, depth, m, dtype);
    return bytes_of(&p);
}

void dot_product(void *to, const void *a, const void *b, int64_t n, int64_t depth, int64_t m,
                 kv_dtype dtype, void *room)
{
    product p = product_of(to, a, b, n, depth, m, dtype);
    p.room = room;
    pool_run(p.tiles, make_tile, &p);
}

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

/* a, b and the result in the type that the products are added in. */
static int multiply(kv_array *wide, kv_array *a, kv_array *b, kv_err *e)
{
    const void *left, *right;
    void *to;
    kv_dtype dtype = kv_array_dtype(wide);
    int64_t depth = kv_array_shape(b)[0];
    int64_t n = kv_array_ndim(a) == 2 ? kv_array_shape(a)[0] : 1;
    int64_t m = kv_array_ndim(b) == 2 ? kv_array_shape(b)[1] : 1;
    TRY(kv_array_read(a, &left, e));
    TRY(kv_array_read(b, &right, e));
    TRY(kv_array_write(wide, &to, e));
    if (n == 0 || m == 0)
        return KV_OK;
    if (m == 1)
        return reduce_products(to, left, right, dtype, n, depth, e);
    product p = product_of(to, left, right, n, depth, m, dtype);
    p.stops = true;
    p.room = mem_alloc_data(bytes_of(&p), e);
    if (!p.room)
        return KV_E_MEMORY;
    pool_run(p.tiles, make_tile, &p);
    mem_free_data(p.room);
    return p.stopped ? stop_error(e) : KV_OK;
}

/* a in dtype, and then in the wider one: another reference where a is so already. */
static int convert(kv_array **out, kv_array *a, kv_dtype dtype, kv_dtype wide, kv_err *e)
{
    own_array *narrow = NULL;
    TRY(arrange_as(&narrow, a, dtype, e));
    return arrange_as(out, narrow, wide, e);
}

int dot_arrays(kv_array **out, kv_array *a, kv_array *b, kv_dtype dtype, kv_err *e)
{
    own_array *left = NULL, *right = NULL, *made = NULL;
    kv_dtype wide = dtype == KV_FLOAT64        ? KV_FLOAT64
                    : kv_dtype_is_float(dtype) ? KV_FLOAT32
                                               : KV_INT64;
    kv_ctx ctx = kv_array_ctx(a);
    int64_t shape[2];
    int ndim = 0;
    TRY(check(a, b, e));
    if (kv_array_ndim(a) == 2)
        shape[ndim++] = kv_array_shape(a)[0];
    if (kv_array_ndim(b) == 2)
        shape[ndim++] = kv_array_shape(b)[1];
    TRY(convert(&left, a, dtype, wide, e));
    TRY(convert(&right, b, dtype, wide, e));
    TRY(kv_array_new_raw(&made, wide, ndim, shape, ctx, e));
    TRY(multiply(made, left, right, e));
    return wide != dtype ? arrange_copy(out, made, dtype, ctx, e) : array_hand_out(out, &made);
}

/* One loop, compiled for vectors of 16, 32 and 64 bytes. A line of DOT_LINE bytes is one to four of
 * them, so that the sums of DOT_ROWS lines fit the registers of AVX2 and of AVX-512. */

/* VECTOR: bytes of a vector register. Vectors may lie anywhere. */
#define KERNEL(name, T, VECTOR, TARGET)                                                            \
    TARGET static void name(void *sums, int64_t stride, const void *left, const void *right,       \
                            int64_t depth)                                                         \
    {                                                                                              \
        typedef T vec __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias));         \
        enum { LENGTH = VECTOR / sizeof(T), VECTORS = DOT_LINE / VECTOR };                         \
        const T *a = left, *b = right;                                                             \
        T *c = sums;                                                                               \
        vec sum[DOT_ROWS][VECTORS];                                                                \
        for (int r = 0; r < DOT_ROWS; r++)                                                         \
            for (int v = 0; v < VECTORS; v++)                                                      \
                sum[r][v] = *(vec *)(c + r * stride + v * LENGTH);                                 \
        for (int64_t k = 0; k < depth; k++) {                                                      \
            for (int v = 0; v < VECTORS; v++) {                                                    \
                const vec y = *(const vec *)(b + v * LENGTH);                                      \
                for (int r = 0; r < DOT_ROWS; r++)                                                 \
                    sum[r][v] += a[r] * y;                                                         \
            }                                                                                      \
            a += DOT_ROWS;                                                                         \
            b += DOT_LINE / sizeof(T);                                                             \
        }                                                                                          \
        for (int r = 0; r < DOT_ROWS; r++)                                                         \
            for (int v = 0; v < VECTORS; v++)                                                      \
                *(vec *)(c + r * stride + v * LENGTH) = sum[r][v];                                 \
    }

/* uint64_t for integers, because it wraps. */
#define TABLE(table, VECTOR, TARGET)                                                               \
    KERNEL(table##_f32, float, VECTOR, TARGET)                                                     \
    KERNEL(table##_f64, double, VECTOR, TARGET)                                                    \
    KERNEL(table##_i64, uint64_t, VECTOR, TARGET)                                                  \
    static const dot_kernels table = {#table, table##_f32, table##_f64, table##_i64};

#define ANY
TABLE(plain, 16, ANY)

#if defined(__x86_64__) && defined(__GNUC__)
TABLE(avx2, 32, __attribute__((target("avx2"))))
TABLE(avx512, 64, __attribute__((target("avx512f,avx512dq"))))

const dot_kernels *dot_kernel_tables(int i)
{
    bool has_avx2 = __builtin_cpu_supports("avx2");
    bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512dq");
    if (i == 0)
        return &plain;
    if (i == 1)
        return has_avx2 ? &avx2 : NULL;
    return i == 2 && has_avx512 ? &avx512 : NULL;
}
#else
const dot_kernels *dot_kernel_tables(int i)
{
    return i == 0 ? &plain : NULL;
}
#endif
