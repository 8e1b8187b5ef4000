/* The memory of a run of a plan, and its smallest piece: one chunk of elements through the program
 * of a pass. Whole arrays (plan_run.c) and rows (plan_rows.c) are both made of such chunks.
 */
#include "vm/plan_work.h"

#include <string.h>

#include "base/philox.h"
#include "engine/pool.h"
#include "vm/kernel.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Arrays of fewer elements are not worth waking a thread for. */
enum { PARALLEL_SIZE = 1 << 17 };

/* Elements of a batch of short rows: enough for the programs over numbers, and few enough that the
 * caches next to a processor hold them from one pass to the next. Of arrays that lie in memory a
 * batch is so small that all of the next one can be fetched while one is worked on. Measured with
 * groupadagrad, rows of 64, on a busy machine: there 2048 take some 1.1 times as long and 512 1.2
 * times, and in the caches 1024 take 1.5 times as long. */
enum { BATCH_SIZE = 8192, BATCH_FAR = 1024 };

static int64_t count_chunks(int64_t size)
{
    return size / PLAN_CHUNK + (size % PLAN_CHUNK != 0);
}

bool plan_is_parallel(int64_t size)
{
    return size >= PARALLEL_SIZE;
}

int plan_work_workers(const plan *p, int64_t size)
{
    return p->grid || plan_is_parallel(size) ? pool_workers() : 1;
}

int64_t plan_work_batch_rows(const plan_arrays *a)
{
    int64_t n = (a->far ? BATCH_FAR : BATCH_SIZE) / a->row, all = a->size / a->row;
    n = n < GROUP ? GROUP : n < PLAN_CHUNK ? n / GROUP * GROUP : PLAN_CHUNK;
    return n < all ? n : all;
}

/* Bytes of one number, or index, of each row of a batch; size: elements of the array. */
static int64_t list_bytes(int64_t size)
{
    return mem_aligned((size < PLAN_CHUNK ? size : PLAN_CHUNK) * (int64_t)sizeof(double));
}

static int64_t rows_bytes(const plan *p, int64_t size)
{
    if (!p->by_rows)
        return 0;
    return (2 + p->nnumbers) * list_bytes(size) + (int64_t)p->nnumbers * CHUNK_BYTES;
}

/* Chunks of terms of a sum: those of a group, but steps add up one after the other. */
static int64_t terms_chunks(const plan *p)
{
    return p->grid ? p->most_sums : GROUP * p->most_sums;
}

static int64_t runner_bytes(const plan *p, int64_t size, int64_t room_bytes)
{
    return mem_aligned(sizeof(runner)) + (terms_chunks(p) + p->ndraws + 1) * CHUNK_BYTES +
           mem_aligned(room_bytes) + rows_bytes(p, size) + mem_aligned(p->program_bytes);
}

static int64_t kept_width(const plan *p)
{
    return p->wide_kept ? 8 : 4;
}

int64_t plan_work_kept(const plan *p, int64_t size)
{
    if (p->nkept == 0)
        return size;
    int64_t most = PLAN_KEPT_BYTES / (p->nkept * kept_width(p));
    most -= most % (GROUP * PLAN_CHUNK);
    return size < most ? size : most;
}

static int64_t kept_bytes(const plan *p, int64_t size)
{
    return p->nkept == 0 ? 0 : mem_aligned(plan_work_kept(p, size) * kept_width(p));
}

/* More bytes of kept values than these are taken while a run needs them: calls that wait for their
 * turn have their scratch memory already. */
enum { KEPT_INSIDE = 1 << 20 };

static int64_t kept_inside(const plan *p, int64_t size)
{
    int64_t bytes = p->nkept * kept_bytes(p, size);
    return bytes <= KEPT_INSIDE ? bytes : 0;
}

static int64_t shared_bytes(const plan *p, int64_t size)
{
    return mem_aligned(sizeof(shared)) + mem_aligned((int64_t)p->nnumbers * PROG_REG_BYTES) +
           mem_aligned(p->most_sums * count_chunks(size) * (int64_t)sizeof(double)) +
           kept_inside(p, size);
}

int64_t plan_work_bytes(const plan *p, int64_t size, int64_t room_bytes)
{
    return shared_bytes(p, size) + plan_work_workers(p, size) * runner_bytes(p, size, room_bytes);
}

runner *plan_work_make_worker(shared *s, char *memory)
{
    runner *r = (runner *)(void *)memory;
    r->s = s;
    r->p = s->p;
    r->a = s->a;
    r->terms = memory + mem_aligned(sizeof *r);
    r->normals = r->terms + terms_chunks(s->p) * CHUNK_BYTES;
    r->input = r->normals + (int64_t)s->p->ndraws * CHUNK_BYTES;
    char *rows = r->input + CHUNK_BYTES + mem_aligned(s->a->room_bytes);
    r->scratch = rows + rows_bytes(s->p, s->a->size);
    if (s->p->by_rows) {
        const plan *p = r->p;
        batch *b = &r->batch;
        int64_t bytes = list_bytes(r->a->size);
        b->row = (int64_t *)(void *)rows;
        b->k = (int64_t *)(void *)(rows + bytes);
        for (int i = 0; i < p->nnumbers; i++)
            b->cell[i] = rows + (2 + i) * bytes;
        b->spread = rows + (2 + p->nnumbers) * bytes;
        /* absent rows have no terms; their sums are of no use, but of memory that was set */
        if (r->a->rows && p->every_row)
            memset(r->terms, 0, (size_t)(GROUP * p->most_sums) * CHUNK_BYTES);
    }
    return r;
}

shared *plan_work_make_shared(const plan *p, const plan_arrays *a, char *memory)
{
    shared *s = (shared *)(void *)memory;
    s->p = p;
    s->a = a;
    s->nchunks = count_chunks(a->size);
    s->lean = !a->rows && (!p->sums_input || a->input_lies);
    s->worker_bytes = runner_bytes(p, a->size, a->room_bytes);
    memset(s->number, 0, (size_t)p->nnumbers * sizeof *s->number);
    for (int i = 0; i < p->nnumbers; i++)
        s->cell[i] = &s->number[i];
    s->copies = memory + mem_aligned(sizeof *s);
    s->blocks = (double *)(void *)(s->copies + mem_aligned((int64_t)p->nnumbers * PROG_REG_BYTES));
    s->workers = memory + shared_bytes(p, a->size);
    s->kept_bytes = kept_bytes(p, a->size);
    s->kept = kept_inside(p, a->size) ? s->workers - p->nkept * s->kept_bytes : NULL;
    return s;
}

void *plan_work_take_kept(shared *s)
{
    if (s->p->nkept == 0 || s->kept || !s->lean)
        return NULL;
    s->kept = mem_alloc_data(s->p->nkept * s->kept_bytes, &(kv_err){0});
    s->lean = s->kept != NULL;
    return s->kept;
}

runner *plan_work_worker(shared *s, int worker)
{
    return (runner *)(void *)(s->workers + worker * s->worker_bytes);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Adds the terms from number `from` on, of `beside` lanes at a time, which is known where this is
 * inlined, and so are their squares. Behind the last lane the first one is added up again, which
 * changes nothing. Few terms of a lane are not worth setting that up. No kernel: the loops of -O3
 * take longer. */
#define SUM(name, T)                                                                               \
    static inline __attribute__((always_inline)) void name##_beside(                               \
        const kernel_terms *terms, int count, int lanes, int64_t from, int64_t n, int beside,      \
        bool squares)                                                                              \
    {                                                                                              \
        for (int s = 0, l = 0; s < count;) {                                                       \
            const T *x[GROUP];                                                                     \
            T *to[GROUP], sum[GROUP];                                                              \
            _Pragma("GCC unroll 8") for (int i = 0; i < beside; i++)                               \
            {                                                                                      \
                bool more = s < count;                                                             \
                x[i] = more ? (const T *)terms[s].x + l * terms[s].stride : x[0];                  \
                to[i] = more ? (T *)terms[s].sums + l : to[0];                                     \
                sum[i] = *to[i];                                                                   \
                l = l + 1 < lanes ? l + 1 : 0;                                                     \
                s += l == 0;                                                                       \
            }                                                                                      \
            _Pragma("GCC unroll 4") for (int64_t j = from; j < n; j++)                             \
            {                                                                                      \
                _Pragma("GCC unroll 8") for (int i = 0; i < beside; i++)                           \
                {                                                                                  \
                    sum[i] += squares ? x[i][j] * x[i][j] : x[i][j];                               \
                }                                                                                  \
            }                                                                                      \
            _Pragma("GCC unroll 8") for (int i = 0; i < beside; i++)                               \
            {                                                                                      \
                *to[i] = sum[i];                                                                   \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static inline __attribute__((always_inline)) void name##_square(                               \
        const kernel_terms *terms, int count, int lanes, int64_t from, int64_t n, bool squares)    \
    {                                                                                              \
        if (n - from >= GROUP && count * lanes > 4)                                                \
            name##_beside(terms, count, lanes, from, n, GROUP, squares);                           \
        else if (n - from >= GROUP && count * lanes > 2)                                           \
            name##_beside(terms, count, lanes, from, n, 4, squares);                               \
        else if (n - from >= GROUP && count * lanes > 1)                                           \
            name##_beside(terms, count, lanes, from, n, 2, squares);                               \
        else                                                                                       \
            name##_beside(terms, count, lanes, from, n, 1, squares);                               \
    }                                                                                              \
                                                                                                   \
    static void name(const kernel_terms *terms, int count, int lanes, int64_t from, int64_t n)     \
    {                                                                                              \
        if (terms->squares)                                                                        \
            name##_square(terms, count, lanes, from, n, true);                                     \
        else                                                                                       \
            name##_square(terms, count, lanes, from, n, false);                                    \
    }

SUM(sum_floats, float)
SUM(sum_doubles, double)

void plan_work_sum(prog_type type, const kernel_terms *terms, int count, int lanes, int64_t n)
{
    int64_t done = type == PROG_F32 && lanes == GROUP ? n - n % GROUP : 0;
    if (done > 0)
        kernel_best()->sum(terms, count, done);
    if (type == PROG_F64)
        sum_doubles(terms, count, lanes, 0, n);
    else if (done < n)
        sum_floats(terms, count, lanes, done, n);
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* Elements that are drawn between two requests for memory. */
enum { DRAW_STEP = 256 };

/* Standard normal numbers for the elements of a chunk. They take longer to make than what the pass
 * reads takes to arrive, so that is asked for meanwhile. */
static char *draw(runner *r, int which, const chunk *c)
{
    const plan_arrays *a = r->a;
    int64_t from = c->from, n = c->n;
    int64_t weight = kv_dtype_bytes(a->stored_dtype), input = kv_dtype_bytes(a->input_dtype);
    char *to = r->normals + (int64_t)which * CHUNK_BYTES;
    uint64_t at = (uint64_t)r->a->t * PLAN_MAX_DRAWS + (uint64_t)which;
    double *wide = (double *)(void *)to;
    if (r->p->type == PROG_F32) {
        for (int64_t i = 0; i < n; i += DRAW_STEP) {
            int64_t m = n - i < DRAW_STEP ? n - i : DRAW_STEP;
            for (int64_t k = 0; a->far && k < m * weight; k += 64)
                __builtin_prefetch((const char *)a->stored + (c->from + i) * weight + k, 1, 2);
            for (int64_t k = 0; a->far && c->input && k < m * input; k += 64)
                __builtin_prefetch((const char *)c->input + i * input + k, 0, 2);
            kernel_best()->normals((float *)(void *)to + i, r->a->seed, at, (uint64_t)(from + i),
                                   m);
        }
        return to;
    }
    for (int64_t i = 0; i < n; i++)
        wide[i] = philox_normal(philox_at(r->a->seed, PHILOX_RULES, at, (uint64_t)(from + i)));
    return to;
}

char *plan_work_number(const runner *r, int i)
{
    return r->p->by_rows ? r->batch.spread + (int64_t)i * CHUNK_BYTES
                         : r->s->copies + (int64_t)i * PROG_REG_BYTES;
}

void *const *plan_array_of(const plan_arrays *a, int slot)
{
    switch (plan_slot_kind(slot)) {
    case PLAN_STORED:
        return &a->stored;
    case PLAN_WEIGHT:
        return &a->weight;
    case PLAN_STATE:
    case PLAN_ROW_STATE:
    case PLAN_ROW_BEGIN:
    case PLAN_COLUMN_STATE:
        return &a->states[plan_slot_index(slot)];
    case PLAN_PRINT:
    case PLAN_ROW_PRINT:
    case PLAN_ROW_PRINT_PRESENT:
        return &a->prints[plan_slot_index(slot)];
    default:
        return NULL;
    }
}

int64_t plan_work_bytes_of(const runner *r, int slot)
{
    const plan_arrays *a = r->a;
    int kind = plan_slot_kind(slot);
    return kv_dtype_bytes(kind == PLAN_STORED   ? a->stored_dtype
                          : kind == PLAN_WEIGHT ? a->weight_dtype
                          : kind == PLAN_PRINT  ? a->print_dtypes[plan_slot_index(slot)]
                                                : prog_dtype(r->p->type));
}

/* Where a program writes the terms of a sum that are `term` elements behind the first. */
static char *terms_at(const runner *r, const plan_pass *pass, int sum, int64_t term)
{
    return r->terms + (int64_t)sum * (r->p->grid ? 1 : GROUP) * CHUNK_BYTES +
           term * (int64_t)plan_work_number_bytes(r->p, pass->sum[sum].number);
}

void *plan_work_slot(runner *r, const plan_pass *pass, int slot, const chunk *c)
{
    int i = plan_slot_index(slot);
    bool packed = plan_slot_kind(slot) == PLAN_PRINT && slot & PLAN_PRESENT;
    switch (plan_slot_kind(slot)) {
    case PLAN_KEPT:
        return r->s->kept + i * r->s->kept_bytes + c->from * kept_width(r->p);
    case PLAN_TERMS:
        return terms_at(r, pass, i, c->term);
    case PLAN_NUMBER:
        return plan_work_number(r, i);
    case PLAN_INPUT:
        return (void *)(uintptr_t)c->input; /* only read */
    case PLAN_NORMAL:
        return draw(r, i, c);
    default:
        return (char *)*plan_array_of(r->a, slot) +
               (packed ? c->at : c->from) * plan_work_bytes_of(r, slot);
    }
}

char *plan_work_terms(runner *r, const plan_pass *pass, int sum, int64_t from, int64_t term)
{
    int array = pass->sum[sum].array;
    if (array < 0)
        return terms_at(r, pass, sum, term);
    if (array == PLAN_INPUT) /* only read */
        return (char *)(uintptr_t)r->a->input_lies + from * kv_dtype_bytes(r->a->input_dtype);
    return plan_work_slot(r, pass, array, &(chunk){.from = from});
}

const void *plan_work_input(runner *r, const plan_pass *pass, int64_t from, int64_t at, int64_t n)
{
    const plan_arrays *a = r->a;
    if (!pass->reads_input)
        return NULL;
    return pass->present && a->rows ? a->input_rows(a->arg, at, n, r->input)
                                    : a->input(a->arg, from, n, r->input);
}

void plan_work_chunk(runner *r, const plan_pass *pass, chunk c)
{
    void *arrays[PLAN_MAX_SLOTS];
    if (pass->nslots == 0)
        return;
    if (!c.input)
        c.input = plan_work_input(r, pass, c.from, c.at, c.n);
    for (int s = 0; s < pass->nslots; s++)
        arrays[s] = plan_work_slot(r, pass, pass->slot[s], &c);
    const uint64_t *pool = plan_pool_of(r->a, pass->program);
    if (c.more)
        prog_run_whole(pass->program, pool, arrays, c.more, c.n);
    else
        prog_run_with(pass->program, pool, arrays, c.n, r->scratch, r->a->far);
}

void plan_work_numbers(runner *r, const plan_pass *pass, void *const *cell, int64_t n)
{
    void *arrays[PLAN_MAX_SLOTS];
    for (int s = 0; s < pass->nslots; s++)
        arrays[s] = cell[plan_slot_index(pass->slot[s])];
    prog_run_with(pass->program, plan_pool_of(r->a, pass->program), arrays, n, r->scratch, false);
}
