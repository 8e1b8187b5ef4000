/* The sum of row_sparse arrays.
 *
 * The result is cut into blocks of rows that stay in the cache. A block begins as zeros and each
 * source in turn adds those of its rows that belong there. All ids ascend, so these rows lie side
 * by side in the source, behind those of the block before; a cursor a source says where. The block
 * lists, for each id from its first to its last, which of its rows that is, so that the place of
 * every source's row is one look into a small table. A source that holds all rows of the block is
 * added without it. A large result is made in a block of its own and goes past the caches.
 *
 * Example: the block holds the ids 4, 5, 9: its table, from 4 on, is 0 1 . . . 2. A source with the
 * rows 2, 5, 9, 12 and its cursor at 5 adds to the block's rows 1 and 2, and is then at 12.
 *
 * Far apart ids make a block of few rows, down to one. The half types are added in a block of
 * float32 and rounded once. Blocks do not depend on each other, so several threads give the same
 * bits as one.
 *
 * Where all sources hold the same rows, as the gradients of one batch often do, nothing is matched:
 * the elements of a part are added in one pass, behind a comparison of its ids.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/compiler.h"
#include "cpu/cpu.h"
#include "cpu/half.h"
#include "engine/pool.h"

enum {
    BLOCK = 4096,        /* elements of a block, unless one row has more: 32 KB at most */
    BLOCK_ROWS = 1024,   /* rows of a block at most */
    SPAN = 16384,        /* its last id is less than this beyond its first: a table of 32 KB */
    PART_BYTES = 1 << 20, /* of the result that a thread takes at a time */
    FAR_BYTES = 4 << 20,  /* a result larger than the caches next to a processor */
    LINE = 64
};

/* ---- Adding rows ----------------------------------------------------------------------------- */

/* Row at[k] of dst += row k of src, for n rows. Whole vectors first: rows are often short. */
#define ADD_ROWS(name, type, SUM)                                                                  \
    CPU_CLONES static void name(void *dst, const uint16_t *at, const void *src, int64_t n,         \
                                int64_t row)                                                       \
    {                                                                                              \
        for (int64_t k = 0; k < n; k++) {                                                          \
            type *restrict d = (type *)dst + at[k] * row;                                          \
            const type *restrict s = (const type *)src + k * row;                                  \
            int64_t i = 0;                                                                         \
            for (; i + 16 <= row; i += 16)                                                         \
                for (int j = 0; j < 16; j++)                                                       \
                    d[i + j] = (type)SUM(d[i + j], s[i + j]);                                      \
            for (; i < row; i++)                                                                   \
                d[i] = (type)SUM(d[i], s[i]);                                                      \
        }                                                                                          \
    }

#define PLUS(x, y)   ((x) + (y))
#define EITHER(x, y) (((x) | (y)) != 0)

ADD_ROWS(add_f32, float, PLUS)
ADD_ROWS(add_f64, double, PLUS)
ADD_ROWS(add_8, uint8_t, PLUS)
ADD_ROWS(add_32, uint32_t, PLUS)
ADD_ROWS(add_64, uint64_t, PLUS)
ADD_ROWS(add_bool, uint8_t, EITHER)

typedef void add_fn(void *dst, const uint16_t *at, const void *src, int64_t n, int64_t row);

/* Integers are added as unsigned numbers, which wrap. The half types have no entry. */
static add_fn *const adds[KV_DTYPE_END] = {
    [KV_FLOAT32] = add_f32, [KV_FLOAT64] = add_f64, [KV_UINT8] = add_8,   [KV_INT8] = add_8,
    [KV_INT32] = add_32,    [KV_INT64] = add_64,    [KV_BOOL] = add_bool,
};

/* ---- A block --------------------------------------------------------------------------------- */

typedef struct job {
    char *dst;
    const int64_t *ids; /* of the result; NULL while those of the sources are compared */
    int64_t *copy;      /* of the same rows: where their ids go */
    int64_t ndst, part; /* rows of the result, and of a part */
    const sparse_rows *src;
    int64_t nsrc;
    kv_dtype dtype;
    int64_t row, bytes; /* elements and bytes of a row */
    bool far;
    int64_t *cursors;   /* nsrc a worker */
    const void **terms; /* of the same rows: nsrc + 1 a worker */
    atomic_bool differ; /* a source has other ids */
} job;

typedef struct block {
    int64_t first, n; /* its rows of the result */
    int64_t from, to; /* its first and last id */
    int64_t *cursors; /* the next row of each source */
    bool listed;      /* place is filled in */
    uint16_t place[SPAN], at[BLOCK_ROWS];
    _Alignas(LINE) char room[BLOCK * 8]; /* its elements, of a large result */
} block;

static void list_places(block *b, const job *j)
{
    const int64_t *ids = j->ids + b->first;
    for (int64_t k = 0; k < b->n && !b->listed; k++)
        b->place[ids[k] - b->from] = (uint16_t)k;
    b->listed = true;
}

/* The rows of source i from its cursor on that belong to the block: their places in b->at. Returns
 * how many they are. */
static int64_t match(block *b, const job *j, int64_t i)
{
    const int64_t *ids = j->src[i].ids + b->cursors[i];
    int64_t left = j->src[i].n - b->cursors[i], n = 0;
    list_places(b, j);
    for (; n < left && ids[n] <= b->to; n++)
        b->at[n] = b->place[ids[n] - b->from];
    return n;
}

static void sum_block(block *b, const job *j)
{
    static const uint16_t begin[] = {0};
    char *dst = j->dst + b->first * j->bytes;
    bool aside = j->far && b->n * j->row <= BLOCK;
    char *to = aside ? b->room : dst;
    memset(to, 0, (size_t)(b->n * j->bytes));
    for (int64_t i = 0; i < j->nsrc; i++) {
        const char *src = (const char *)j->src[i].data + b->cursors[i] * j->bytes;
        const sparse_rows *s = &j->src[i];
        bool all = s->n - b->cursors[i] >= b->n && memcmp(s->ids + b->cursors[i], j->ids + b->first,
                                                          (size_t)b->n * sizeof *s->ids) == 0;
        int64_t n = all ? b->n : match(b, j, i);
        adds[j->dtype](to, all ? begin : b->at, src, all ? 1 : n, all ? n * j->row : j->row);
        b->cursors[i] += n;
    }
    if (aside)
        stream_convert(dst, j->dtype, to, j->dtype, b->n * j->row);
}

/* A row with more elements than a block of float32 has is a block of its own, and added in pieces
 * of `piece` elements. */
static void sum_half_block(block *b, const job *j)
{
    bool f16 = j->dtype == KV_FLOAT16;
    float total[BLOCK], term[BLOCK];
    int64_t most = j->row <= BLOCK ? j->row : BLOCK;
    for (int64_t c = 0, piece; c < j->row; c += piece) {
        piece = j->row - c < most ? j->row - c : most;
        memset(total, 0, (size_t)(b->n * piece) * sizeof *total);
        for (int64_t i = 0; i < j->nsrc; i++) {
            const uint16_t *src = j->src[i].data;
            int64_t n = match(b, j, i);
            src += b->cursors[i] * j->row + c;
            (f16 ? half_widen_f16 : half_widen_bf16)(term, src, n * piece);
            add_f32(total, b->at, term, n, piece);
            if (c + piece == j->row)
                b->cursors[i] += n;
        }
        (f16 ? half_narrow_f16 : half_narrow_bf16)(
            (uint16_t *)(void *)j->dst + b->first * j->row + c, total, b->n * piece);
    }
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static void run_part(void *arg, int64_t part, int worker)
{
    const job *j = arg;
    int64_t k = part * j->part, end = k + j->part < j->ndst ? k + j->part : j->ndst;
    bool half = j->dtype == KV_FLOAT16 || j->dtype == KV_BFLOAT16;
    block b;
    b.cursors = j->cursors + worker * j->nsrc;
    for (int64_t i = 0; i < j->nsrc; i++)
        b.cursors[i] = row_ids_find(j->src[i].ids, 0, j->src[i].n, j->ids[k]);
    for (; k < end; k += b.n) {
        const int64_t *ids = j->ids + k;
        int64_t n = end - k, most = BLOCK / j->row;
        most = most < 1 ? 1 : most < BLOCK_ROWS ? most : BLOCK_ROWS;
        n = n < most ? n : most;
        if (ids[n - 1] - ids[0] >= SPAN)
            n = row_ids_find(ids, 0, n, ids[0] + SPAN);
        b.first = k;
        b.n = n;
        b.from = ids[0];
        b.to = ids[n - 1];
        b.listed = false;
        if (half)
            sum_half_block(&b, j);
        else
            sum_block(&b, j);
    }
}

static job job_of(void *dst, int64_t ndst, const sparse_rows *src, int64_t nsrc, kv_dtype dtype,
                  int64_t row)
{
    int64_t bytes = row * kv_dtype_bytes(dtype);
    return (job){.dst = dst,
                 .ndst = ndst,
                 .part = bytes < PART_BYTES ? PART_BYTES / bytes : 1,
                 .src = src,
                 .nsrc = nsrc,
                 .dtype = dtype,
                 .row = row,
                 .bytes = bytes,
                 .far = ndst > FAR_BYTES / bytes};
}

void sum_rows(void *dst, const int64_t *ids, int64_t ndst, const sparse_rows *src, int64_t nsrc,
              kv_dtype dtype, int64_t row, void *room)
{
    if (ndst == 0 || row == 0)
        return;
    job j = job_of(dst, ndst, src, nsrc, dtype, row);
    j.ids = ids;
    j.cursors = room;
    pool_run((ndst + j.part - 1) / j.part, run_part, &j);
}

/* ---- The same rows --------------------------------------------------------------------------- */

static bool are_same(const job *j, int64_t first, int64_t n)
{
    const int64_t *ids = j->src->ids;
    for (int64_t i = 1; i < j->nsrc; i++)
        if (j->src[i].ids != ids &&
            memcmp(j->src[i].ids + first, ids + first, (size_t)n * sizeof *ids) != 0)
            return false;
    return true;
}

/* The first term of every sum is 0, as in sum_block: -0 plus -0 would be -0. */
static void sum_same_part(void *arg, int64_t part, int worker)
{
    job *j = arg;
    int64_t first = part * j->part, left = j->src->n - first, n = left < j->part ? left : j->part;
    const void **terms = j->terms + worker * (j->nsrc + 1);
    char zeros[BLOCK * 8] = {0};
    if (j->differ || !are_same(j, first, n)) {
        j->differ = true;
        return;
    }
    (j->far ? stream_convert : convert_elements)(j->copy + first, KV_INT64, j->src->ids + first,
                                                 KV_INT64, n);
    terms[0] = zeros;
    for (int64_t at = 0, m; at < n * j->row; at += m) {
        int64_t offset = first * j->bytes + at * kv_dtype_bytes(j->dtype);
        m = n * j->row - at < BLOCK ? n * j->row - at : BLOCK;
        for (int64_t i = 0; i < j->nsrc; i++)
            terms[i + 1] = (const char *)j->src[i].data + offset;
        (j->far ? stream_sum : sum_elements)(j->dst + offset, terms, j->nsrc + 1, j->dtype, m);
    }
}

bool sum_same_rows(void *dst, int64_t *ids, const sparse_rows *src, int64_t nsrc, kv_dtype dtype,
                   int64_t row, void *room)
{
    job j = job_of(dst, src->n, src, nsrc, dtype, row);
    j.copy = ids;
    j.terms = room;
    pool_run((src->n + j.part - 1) / j.part, sum_same_part, &j);
    return !j.differ;
}
