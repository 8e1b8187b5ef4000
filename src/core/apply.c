/* Sums and programs over blocks. */
#include "core/apply.h"

#include <string.h>

#include "array/sparse.h"
#include "base/mem.h"

/* Elements a block: at most 8 KB, so that a few blocks share the L1 cache with a program's own. */
enum { BLOCK = 1024, BLOCK_BYTES = BLOCK * 8 };

/* A sum that several arrays receive is made in larger blocks: each copy ends with a fence. */
enum { SUM_BYTES = 16 << 10 };

/* The scratch of one thread: blocks, the beginnings of values, a program's scratch. */
typedef struct scratch {
    const void **sources; /* where the values of a block begin */
    char *piece, *total;  /* blocks for values of another dtype */
    char *sum;            /* a block of a sum that several arrays receive */
    char *program;        /* prog_run's */
} scratch;

/* Memory for sums, which each thread has for itself. */
static int64_t sum_bytes(int64_t nvalues)
{
    return 2 * BLOCK_BYTES + SUM_BYTES + mem_aligned(nvalues * (int64_t)sizeof(void *));
}

static scratch sum_scratch(char *memory)
{
    return (scratch){.piece = memory,
                     .total = memory + BLOCK_BYTES,
                     .sum = memory + 2 * BLOCK_BYTES,
                     .sources = (const void **)(void *)(memory + 2 * BLOCK_BYTES + SUM_BYTES)};
}

static char *worker_memory(const apply_work *w, int worker)
{
    return w->memory + worker * w->each;
}

int apply_reserve(apply_work *w, int workers, int64_t max_values, int64_t part_bytes,
                  int64_t whole_bytes, kv_err *e)
{
    int64_t sums = sum_bytes(max_values);
    w->each = mem_aligned(sums > part_bytes ? sums : part_bytes);
    int64_t bytes = workers * w->each > whole_bytes ? workers * w->each : whole_bytes;
    if (bytes <= w->bytes)
        return KV_OK;
    char *memory = mem_alloc_data(bytes, e);
    if (!memory)
        return KV_E_MEMORY;
    mem_free(w->memory);
    w->memory = memory;
    w->bytes = bytes;
    return KV_OK;
}

void apply_work_release(apply_work *w)
{
    mem_free(w->memory);
    *w = (apply_work){0};
}

static const void *element(const kv_array *a, int64_t i)
{
    return (const char *)a->data + i * kv_dtype_bytes(a->dtype);
}

void apply_copy_part(kv_array *dst, const kv_array *src, int64_t from, int64_t n, bool far)
{
    char *to = (char *)dst->data + from * kv_dtype_bytes(dst->dtype);
    (far ? stream_convert : convert_elements)(to, dst->dtype, element(src, from), src->dtype, n);
}

/* Elements from … from + n - 1 of dtype, which lie at src, to dst and to the outs. dst: NULL or the
 * place of as many elements of that dtype. */
static void spread(void *dst, const apply_outs *outs, const void *src, kv_dtype dtype, int64_t from,
                   int64_t n, bool far)
{
    enum { AT_ONCE = 16 };
    void *same[AT_ONCE];
    int64_t nsame = 0, bytes = n * kv_dtype_bytes(dtype);
    if (dst)
        same[nsame++] = dst;
    for (int64_t j = 0; j < outs->n; j++) {
        const kv_array *out = outs->items[j];
        void *to = (char *)out->data + from * kv_dtype_bytes(out->dtype);
        if (to == src)
            continue;
        if (!far || out->dtype != dtype || dtype == KV_BOOL) {
            (far ? stream_convert : convert_elements)(to, out->dtype, src, dtype, n);
            continue;
        }
        if (nsame == AT_ONCE) {
            stream_copies(same, nsame, src, bytes);
            nsame = 0;
        }
        same[nsame++] = to;
    }
    if (nsame > 0)
        stream_copies(same, nsame, src, bytes);
}

void apply_spread_part(const apply_outs *outs, const kv_array *src, int64_t from, int64_t n,
                       bool far)
{
    spread(NULL, outs, element(src, from), src->dtype, from, n, far);
}

/* One block of values of several dtypes: each is converted to dtype, then added to the total. */
static void sum_mixed(void *dst, kv_dtype dtype, const apply_values *v, int64_t from, int64_t n,
                      const scratch *w)
{
    /* The sum accumulates in this dtype. */
    kv_dtype wide = dtype == KV_FLOAT16 || dtype == KV_BFLOAT16 ? KV_FLOAT32 : dtype;
    for (int64_t j = 0; j < v->n; j++) {
        const kv_array *a = v->items[j];
        const void *terms[] = {w->total, w->piece};
        char *to = j ? w->piece : w->total;
        /* dst serves as the place between the two conversions: nothing was written to it yet. */
        convert_elements(wide == dtype ? to : dst, dtype, element(a, from), a->dtype, n);
        if (wide != dtype)
            convert_elements(to, wide, dst, dtype, n);
        if (j)
            sum_elements(w->total, terms, 2, wide, n);
    }
    convert_elements(dst, dtype, w->total, wide, n);
}

/* Elements from … from + n - 1 of the sum. n is at most BLOCK unless all dtypes are the same. */
static void sum_part(void *dst, kv_dtype dtype, const apply_values *v, int64_t from, int64_t n,
                     bool far, const scratch *w)
{
    const kv_array *first = v->items[0];
    if (v->n == 1) {
        (far ? stream_convert : convert_elements)(dst, dtype, element(first, from), first->dtype,
                                                  n);
    } else if (v->same_dtype && from == 0) {
        (far ? stream_sum : sum_elements)(dst, v->data, v->n, dtype, n);
    } else if (v->same_dtype) {
        for (int64_t j = 0; j < v->n; j++)
            w->sources[j] = element(v->items[j], from);
        (far ? stream_sum : sum_elements)(dst, w->sources, v->n, dtype, n);
    } else {
        sum_mixed(dst, dtype, v, from, n, w);
    }
}

void apply_sum(kv_array *dst, const apply_values *v, int64_t from, int64_t n, bool far,
               const apply_work *w, int worker)
{
    scratch own = sum_scratch(worker_memory(w, worker));
    int64_t bytes = kv_dtype_bytes(dst->dtype), end = from + n;
    int64_t block = v->same_dtype || v->n == 1 ? n : BLOCK;
    for (int64_t i = from; i < end; i += block) {
        int64_t m = end - i < block ? end - i : block;
        sum_part((char *)dst->data + i * bytes, dst->dtype, v, i, m, far, &own);
    }
}

/* A sum of at least two values past the caches to dst and the outs in one pass, where all arrays
 * have one dtype. Returns false if another way must be found. */
static bool sum_to_all(kv_array *dst, const apply_outs *outs, const apply_values *v, int64_t from,
                       int64_t n, const scratch *w)
{
    void *to[STREAM_PLACES];
    kv_dtype dtype = kv_array_dtype(dst);
    int64_t offset = from * kv_dtype_bytes(dtype);
    if (v->n < 2 || !v->same_dtype || outs->n >= STREAM_PLACES)
        return false;
    to[0] = (char *)dst->data + offset;
    for (int64_t j = 0; j < outs->n; j++) {
        if (outs->items[j]->dtype != dtype)
            return false;
        to[j + 1] = (char *)outs->items[j]->data + offset;
    }
    for (int64_t j = 0; j < v->n; j++)
        w->sources[j] = element(v->items[j], from);
    return stream_sums(to, outs->n + 1, w->sources, v->n, dtype, n);
}

void apply_sum_spread(kv_array *dst, const apply_outs *outs, const apply_values *v, int64_t from,
                      int64_t n, bool far, const apply_work *w, int worker)
{
    scratch own = sum_scratch(worker_memory(w, worker));
    kv_dtype dtype = kv_array_dtype(dst);
    int64_t bytes = kv_dtype_bytes(dtype), end = from + n;
    int64_t block = v->same_dtype || v->n == 1 ? SUM_BYTES / bytes : BLOCK;
    if (far && v->n == 1 && v->same_dtype && dtype != KV_BOOL) { /* the sum is there */
        spread((char *)dst->data + from * bytes, outs, element(v->items[0], from), dtype, from, n,
               true);
        return;
    }
    if (far && sum_to_all(dst, outs, v, from, n, &own))
        return;
    for (int64_t i = from; i < end; i += block) {
        int64_t m = end - i < block ? end - i : block;
        char *to = (char *)dst->data + i * bytes, *made = far ? own.sum : to;
        sum_part(made, dtype, v, i, m, false, &own);
        spread(far ? to : NULL, outs, made, dtype, i, m, far);
    }
}

/* The values whose sum is the input of a plan. */
typedef struct input {
    const apply_values *values;
    kv_dtype dtype;
} input;

/* The elements from … from + n - 1 of a row_sparse array, those of absent rows as zeros. */
static const void *dense_part(char *room, const kv_array *a, int64_t from, int64_t n)
{
    int64_t bytes = kv_dtype_bytes(a->dtype), row = sparse_row(a), end = from + n;
    if (sparse_is_full(a))
        return element(a, from);
    memset(room, 0, (size_t)(n * bytes));
    for (int64_t k = row_ids_find(a->rows, 0, a->nrows, from / row);
         k < a->nrows && a->rows[k] * row < end; k++) {
        int64_t first = a->rows[k] * row, begin = first < from ? from : first;
        int64_t stop = first + row < end ? first + row : end;
        memcpy(room + (begin - from) * bytes, element(a, k * row + begin - first),
               (size_t)((stop - begin) * bytes));
    }
    return room;
}

static const void *rows_at(void *arg, int64_t from, int64_t n, void *room)
{
    const input *in = arg;
    (void)n;
    (void)room;
    return element(in->values->sum, from);
}

/* One value of the right dtype is read where it is; else the sum is made in room,
 * block by block. */
static const void *input_at(void *arg, int64_t from, int64_t n, void *room)
{
    const input *in = arg;
    int64_t bytes = kv_dtype_bytes(in->dtype);
    if (in->values->sum)
        return dense_part(room, in->values->sum, from, n);
    if (in->values->n == 1 && in->values->same_dtype)
        return element(in->values->items[0], from);
    scratch own = sum_scratch((char *)room + PLAN_CHUNK * 8);
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = n - i < BLOCK ? n - i : BLOCK;
        sum_part((char *)room + i * bytes, in->dtype, in->values, from + i, m, false, &own);
    }
    return room;
}

int64_t apply_plan_bytes(const plan *p, int64_t size, int64_t nvalues)
{
    return plan_scratch_bytes(p, size, sum_bytes(nvalues));
}

/* Fills in the size of the arrays and where the plan reads its input. */
static void fill_arrays(plan_arrays *a, input *in, const kv_array *stored)
{
    int64_t rows = kv_array_ndim(stored) > 0 ? kv_array_shape(stored)[0] : 1;
    a->size = stored->size;
    a->row = stored->size > 0 && rows > 0 ? stored->size / rows : 1;
    a->input = input_at;
    a->input_dtype = in->dtype;
    a->input_lies = in->values->sum || in->values->n > 1 || !in->values->same_dtype
                        ? NULL
                        : in->values->items[0]->data;
    bool adds = !in->values->sum && in->values->n == 2 && in->values->same_dtype;
    for (int i = 0; i < 2; i++)
        a->input_terms[i] = adds && in->dtype == KV_FLOAT32 ? in->values->items[i]->data : NULL;
    a->room_bytes = sum_bytes(in->values->n);
    a->input_rows = rows_at;
    a->arg = in;
}

void apply_plan_part(const plan *p, kv_array *stored, const apply_values *v, plan_arrays *a,
                     int64_t from, int64_t n, const apply_work *w, int worker)
{
    input in = {v, kv_array_dtype(stored)};
    fill_arrays(a, &in, stored);
    a->rows = NULL;
    plan_run_part(p, a, from, n, worker_memory(w, worker));
}

void apply_plan(const plan *p, kv_array *stored, const apply_values *v, bool present,
                plan_arrays *a, const apply_work *w, int worker)
{
    input in = {v, kv_array_dtype(stored)};
    fill_arrays(a, &in, stored);
    a->rows = present && v->sum ? array_rows(v->sum) : NULL;
    a->nrows = a->rows ? array_nrows(v->sum) : 0;
    plan_run(p, a, worker_memory(w, worker));
}
