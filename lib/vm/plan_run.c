/* Plans, second half: running passes over the arrays of a key.
 *
 * A pass goes through its elements chunk by chunk. What it goes through is an extent: the whole
 * array, one row, or the present rows laid end to end. In the last, a chunk is cut at the ends of
 * runs of neighbouring rows, since stored and states have gaps there while the input has none.
 *
 * Rules by rows take rows in batches: a number becomes an array of one for each row of the batch,
 * so that one run of a program, over the elements of neighbours or over numbers, serves many rows.
 * Batches do not depend on each other: each is one worker's.
 */
#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "base/philox.h"
#include "engine/pool.h"
#include "vm/plan_pass.h"

/* A sum in the making: blocks of PLAN_CHUNK elements, whatever the pieces it comes in. */
typedef struct total {
    double block, sum; /* hold numbers of the sum's type */
    int64_t n;         /* elements of the block so far */
} total;

/* Chunks that a worker takes at a time; as many sums run side by side. */
enum { GROUP = KERNEL_LANES };

/* Chunks of a part of the work of a large array. */
enum { PART_CHUNKS = 16 };

/* Arrays of fewer elements are not worth waking a thread for. */
enum { PARALLEL_SIZE = 1 << 17 };

/* Rows that a worker works on together. */
typedef struct batch {
    int64_t n;
    int64_t *row, *k; /* of each: which row it is, and which of the present ones, or -1 */
    bool whole;       /* they are neighbours, and present */
    void *cell[2 * PLAN_MAX_NUMBERS]; /* of each number, one for each row */
    char *spread;                     /* of each number, a chunk: for each element its row's */
} batch;

/* What all workers of a run share. */
typedef struct shared {
    const plan *p;
    const plan_arrays *a;
    uint64_t number[2 * PLAN_MAX_NUMBERS]; /* each in its own type, at the cell's start */
    void *cell[2 * PLAN_MAX_NUMBERS];      /* the cells, as arrays for the programs over numbers */
    char *copies;                          /* a block of copies of each number */
    double *blocks; /* of each sum, the result of each chunk of a whole array */
    char *workers;  /* their memory, worker_bytes each */
    int64_t nchunks, worker_bytes;
} shared;

/* What one worker has for itself. */
typedef struct runner {
    shared *s;
    const plan *p;
    const plan_arrays *a;
    total totals[PLAN_MAX_NUMBERS];
    char *terms;   /* GROUP chunks of terms of each sum */
    char *normals; /* a chunk for each draw */
    char *input;   /* a chunk of the input, and its room */
    void *scratch; /* of the programs */
    batch batch;   /* of rules by rows */
} runner;

enum { CHUNK_BYTES = PLAN_CHUNK * 8 };

static int64_t aligned(int64_t bytes)
{
    return (bytes + MEM_ALIGN - 1) & ~(int64_t)(MEM_ALIGN - 1);
}

static int most_sums(const plan *p)
{
    int most = 0;
    for (int i = 0; i < p->npasses; i++)
        most = p->pass[i].nsums > most ? p->pass[i].nsums : most;
    return most;
}

static int64_t program_bytes(const plan *p)
{
    int64_t most = 0;
    for (int i = 0; i < p->npasses; i++) {
        const prog *both[] = {p->pass[i].numbers, p->pass[i].elements};
        for (int j = 0; j < 2; j++) {
            int64_t bytes = both[j] ? prog_scratch_bytes(both[j]) : 0;
            most = bytes > most ? bytes : most;
        }
    }
    return aligned(most);
}

static int count_draws(const plan *p)
{
    int n = 0;
    for (int i = 0; i < p->npasses; i++)
        for (int s = 0; s < p->pass[i].nslots; s++) {
            int draw = p->pass[i].slot[s] % PLAN_PRESENT - PLAN_NORMAL;
            if (p->pass[i].slot[s] < PLAN_ROW_STATE && draw >= n && draw < PLAN_MAX_DRAWS)
                n = draw + 1;
        }
    return n;
}

static int64_t count_chunks(int64_t size)
{
    return size / PLAN_CHUNK + (size % PLAN_CHUNK != 0);
}

bool plan_is_parallel(int64_t size)
{
    return size >= PARALLEL_SIZE;
}

static int count_workers(int64_t size)
{
    return plan_is_parallel(size) ? pool_workers() : 1;
}

/* Rows are batched so that they fill a chunk, or that their sums run side by side. */
static int64_t batch_rows(const plan_arrays *a)
{
    int64_t n = PLAN_CHUNK / a->row, all = a->size / a->row;
    n = n < GROUP ? GROUP : n;
    return n < all ? n : all;
}

/* Bytes of one number, or index, of each row of a batch; size: elements of the array. */
static int64_t list_bytes(int64_t size)
{
    return aligned((size < PLAN_CHUNK ? size : PLAN_CHUNK) * (int64_t)sizeof(double));
}

static int64_t batch_bytes(const plan *p, int64_t size)
{
    if (!p->by_rows)
        return 0;
    return (2 + p->nnumbers) * list_bytes(size) + (int64_t)p->nnumbers * CHUNK_BYTES;
}

/* Terms have room for GROUP chunks. */
static int64_t runner_bytes(const plan *p, int64_t size, int64_t room_bytes)
{
    return aligned(sizeof(runner)) +
           (int64_t)(GROUP * most_sums(p) + count_draws(p) + 1) * CHUNK_BYTES +
           aligned(room_bytes) + batch_bytes(p, size) + program_bytes(p);
}

static int64_t shared_bytes(const plan *p, int64_t size)
{
    return aligned(sizeof(shared)) + aligned((int64_t)p->nnumbers * PROG_REG_BYTES) +
           aligned(most_sums(p) * count_chunks(size) * (int64_t)sizeof(double));
}

int64_t plan_scratch_bytes(const plan *p, int64_t size, int64_t room_bytes)
{
    return shared_bytes(p, size) + count_workers(size) * runner_bytes(p, size, room_bytes);
}

/* Absent rows have no terms; what is added up for them is of no use, but memory that was set. */
static void make_batch(runner *r, char *memory)
{
    const plan *p = r->p;
    batch *b = &r->batch;
    int64_t bytes = list_bytes(r->a->size);
    b->row = (int64_t *)(void *)memory;
    b->k = (int64_t *)(void *)(memory + bytes);
    for (int i = 0; i < p->nnumbers; i++) {
        b->cell[i] = memory + (2 + i) * bytes;
        memset(b->cell[i], 0, (size_t)batch_rows(r->a) * sizeof(double));
    }
    b->spread = memory + (2 + p->nnumbers) * bytes;
    if (r->a->rows && p->every_row)
        memset(r->terms, 0, (size_t)(GROUP * most_sums(p)) * CHUNK_BYTES);
}

static runner *make_runner(shared *s, char *memory)
{
    runner *r = (runner *)(void *)memory;
    r->s = s;
    r->p = s->p;
    r->a = s->a;
    r->terms = memory + aligned(sizeof *r);
    r->normals = r->terms + (int64_t)GROUP * most_sums(s->p) * CHUNK_BYTES;
    r->input = r->normals + (int64_t)count_draws(s->p) * CHUNK_BYTES;
    char *rows = r->input + CHUNK_BYTES + aligned(s->a->room_bytes);
    r->scratch = rows + batch_bytes(s->p, s->a->size);
    if (s->p->by_rows)
        make_batch(r, rows);
    return r;
}

static shared *make_shared(const plan *p, const plan_arrays *a, char *memory)
{
    shared *s = (shared *)(void *)memory;
    s->p = p;
    s->a = a;
    s->nchunks = count_chunks(a->size);
    s->worker_bytes = runner_bytes(p, a->size, a->room_bytes);
    memset(s->number, 0, sizeof s->number);
    for (int i = 0; i < 2 * PLAN_MAX_NUMBERS; i++)
        s->cell[i] = &s->number[i];
    s->copies = memory + aligned(sizeof *s);
    s->blocks = (double *)(void *)(s->copies + aligned((int64_t)p->nnumbers * PROG_REG_BYTES));
    s->workers = memory + shared_bytes(p, a->size);
    return s;
}

static runner *worker_of(shared *s, int worker)
{
    return (runner *)(void *)(s->workers + worker * s->worker_bytes);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void put_number(shared *r, int i, double x)
{
    float f = (float)x;
    if (r->p->number_type[i] == PROG_F32)
        memcpy(&r->number[i], &f, sizeof f);
    else
        memcpy(&r->number[i], &x, sizeof x);
}

/* Blocks of copies of the numbers that a pass reads. */
static void copy_numbers(shared *r, const plan_pass *pass)
{
    for (int s = 0; s < pass->nslots; s++) {
        int i = pass->slot[s] - PLAN_PRIVATE;
        if (i < 0 || i >= PLAN_MAX_NUMBERS)
            continue;
        char *to = r->copies + (int64_t)i * PROG_REG_BYTES;
        size_t bytes = r->p->number_type[i] == PROG_F32 ? 4 : 8;
        for (size_t at = 0; at < PROG_REG_BYTES; at += bytes)
            memcpy(to + at, &r->number[i], bytes);
    }
}

/* Where the number of a row is read, or written; NULL when the row has none there. k: which of the
 * present rows it is, or -1: such a row keeps its states. */
static char *row_cell(const plan_arrays *a, const plan_row *m, int64_t row, int64_t k, size_t bytes)
{
    int slot = m->slot;
    if (slot >= PLAN_ROW_PRINT_PRESENT)
        return k < 0 ? NULL : (char *)a->prints[slot - PLAN_ROW_PRINT_PRESENT] + (size_t)k * bytes;
    if (slot >= PLAN_ROW_PRINT)
        return (char *)a->prints[slot - PLAN_ROW_PRINT] + (size_t)row * bytes;
    if (slot >= PLAN_ROW_BEGIN)
        return k >= 0 ? NULL : (char *)a->states[slot - PLAN_ROW_BEGIN] + (size_t)row * bytes;
    if (m->write && k < 0)
        return NULL;
    return (char *)a->states[slot - PLAN_ROW_STATE] + (size_t)row * bytes;
}

static size_t number_bytes(const plan *p, int i)
{
    return p->number_type[i] == PROG_F32 ? 4 : 8;
}

/* Numbers of a whole array that are printed. */
static void write_prints(const shared *s)
{
    for (int i = 0; i < s->p->nrows; i++) {
        const plan_row *m = &s->p->row[i];
        size_t bytes = number_bytes(s->p, m->number);
        char *at = row_cell(s->a, m, 0, 0, bytes);
        if (at && m->write)
            memcpy(at, &s->number[m->number], bytes);
    }
}

static void move_number(const runner *r, const plan_row *m, int64_t j, int64_t n)
{
    size_t bytes = number_bytes(r->p, m->number);
    char *at = row_cell(r->a, m, r->batch.row[j], r->batch.k[j], bytes);
    char *cell = (char *)r->batch.cell[m->number] + (size_t)j * bytes;
    if (at && m->write)
        memcpy(at, cell, (size_t)n * bytes);
    else if (at)
        memcpy(cell, at, (size_t)n * bytes);
}

/* Numbers that the rows of the batch read, or that they changed. */
static void move_rows(const runner *r, bool write)
{
    for (int i = 0; i < r->p->nrows; i++) {
        const plan_row *m = &r->p->row[i];
        if (m->write == write && r->batch.whole)
            move_number(r, m, 0, r->batch.n);
        else if (m->write == write)
            for (int64_t j = 0; j < r->batch.n; j++)
                move_number(r, m, j, 1);
    }
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static void add_float(total *t, const float *x, int64_t n)
{
    float block = (float)t->block;
    for (int64_t i = 0; i < n; i++)
        block += x[i];
    t->block = block;
}

static void add_double(total *t, const double *x, int64_t n)
{
    double block = t->block;
    for (int64_t i = 0; i < n; i++)
        block += x[i];
    t->block = block;
}

/* The sum of each of GROUP chunks of terms. */
static void sum_floats(double *out, const kernel_table *kernels, const void *terms)
{
    float sum[GROUP] = {0};
    kernels->sum(sum, terms, PLAN_CHUNK, PLAN_CHUNK);
    for (int lane = 0; lane < GROUP; lane++)
        out[lane] = sum[lane];
}

static void sum_doubles(double *out, const double *terms)
{
    double sum[GROUP] = {0};
    for (int64_t i = 0; i < PLAN_CHUNK; i++)
        for (int lane = 0; lane < GROUP; lane++)
            sum[lane] += terms[lane * PLAN_CHUNK + i];
    memcpy(out, sum, sizeof sum);
}

static void end_block(total *t, bool single)
{
    t->sum = single ? (float)((float)t->sum + (float)t->block) : t->sum + t->block;
    t->block = 0;
    t->n = 0;
}

static void add_terms(runner *r, const plan_pass *pass, int64_t n)
{
    for (int s = 0; s < pass->nsums; s++) {
        total *t = &r->totals[s];
        const char *x = r->terms + (int64_t)s * GROUP * CHUNK_BYTES;
        bool single = r->p->number_type[pass->sum[s]] == PROG_F32;
        for (int64_t left = n; left > 0;) {
            int64_t m = left < PLAN_CHUNK - t->n ? left : PLAN_CHUNK - t->n;
            if (single)
                add_float(t, (const float *)(const void *)x, m);
            else
                add_double(t, (const double *)(const void *)x, m);
            t->n += m;
            x += m * (single ? 4 : 8);
            left -= m;
            if (t->n == PLAN_CHUNK)
                end_block(t, single);
        }
    }
}

/* The sum of the n terms in the first lane. */
static double sum_chunk(const runner *r, const plan_pass *pass, int s, int64_t n)
{
    const void *x = r->terms + (int64_t)s * GROUP * CHUNK_BYTES;
    total t = {0};
    if (r->p->number_type[pass->sum[s]] == PROG_F32)
        add_float(&t, x, n);
    else
        add_double(&t, x, n);
    return t.block;
}

static void end_sums(runner *r, const plan_pass *pass)
{
    for (int s = 0; s < pass->nsums; s++) {
        total *t = &r->totals[s];
        if (t->n > 0)
            end_block(t, r->p->number_type[pass->sum[s]] == PROG_F32);
        put_number(r->s, pass->sum[s], t->sum);
    }
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* Standard normal numbers for the elements from … of the array. */
static char *draw(runner *r, int which, int64_t from, int64_t n)
{
    char *to = r->normals + (int64_t)which * CHUNK_BYTES;
    uint64_t at = (uint64_t)r->a->t * PLAN_MAX_DRAWS + (uint64_t)which;
    for (int64_t i = 0; i < n; i++) {
        double z = philox_normal(philox_at(r->a->seed, PHILOX_RULES, at, (uint64_t)(from + i)));
        if (r->p->type == PROG_F32)
            ((float *)(void *)to)[i] = (float)z;
        else
            ((double *)(void *)to)[i] = z;
    }
    return to;
}

/* The elements of a chunk: n of them from `from` on in the whole array, which are those from `at`
 * on among what the pass goes through. input: their part of the input, if the pass reads it. term:
 * where their terms go. */
typedef struct chunk {
    int64_t from, at, n;
    const void *input;
    int64_t term;
} chunk;

static char *print_at(const plan_arrays *a, int slot, const chunk *c)
{
    int i = slot % PLAN_PRESENT - PLAN_PRINT;
    int64_t first = slot >= PLAN_PRESENT ? c->at : c->from;
    return (char *)a->prints[i] + first * kv_dtype_bytes(a->print_dtypes[i]);
}

static char *terms_at(const runner *r, const plan_pass *pass, int sum, int64_t term)
{
    return r->terms + (int64_t)sum * GROUP * CHUNK_BYTES +
           term * (int64_t)number_bytes(r->p, pass->sum[sum]);
}

static char *number_at(const runner *r, int i)
{
    return r->p->by_rows ? r->batch.spread + (int64_t)i * CHUNK_BYTES
                         : r->s->copies + (int64_t)i * PROG_REG_BYTES;
}

/* Where slot begins for a chunk. */
static void *slot_at(runner *r, const plan_pass *pass, int slot, const chunk *c)
{
    const plan_arrays *a = r->a;
    int64_t from = c->from;
    int64_t bytes = r->p->type == PROG_F64 || r->p->type == PROG_I64 ? 8 : 4;
    if (slot >= PLAN_PRIVATE + PLAN_MAX_NUMBERS)
        return terms_at(r, pass, slot - PLAN_PRIVATE - PLAN_MAX_NUMBERS, c->term);
    if (slot >= PLAN_PRIVATE)
        return number_at(r, slot - PLAN_PRIVATE);
    if (slot % PLAN_PRESENT >= PLAN_PRINT)
        return print_at(a, slot, c);
    slot %= PLAN_PRESENT;
    if (slot == PLAN_STORED)
        return (char *)a->stored + from * kv_dtype_bytes(a->stored_dtype);
    if (slot == PLAN_INPUT)
        return (void *)(uintptr_t)c->input; /* only read */
    if (slot == PLAN_WEIGHT)
        return (char *)a->weight + from * kv_dtype_bytes(a->weight_dtype);
    if (slot >= PLAN_NORMAL)
        return draw(r, slot - PLAN_NORMAL, from, c->n);
    return (char *)a->states[slot - PLAN_STATE] + from * bytes;
}

static bool reads_input(const plan_pass *pass)
{
    for (int s = 0; s < pass->nslots; s++)
        if (pass->slot[s] == PLAN_INPUT || pass->slot[s] == PLAN_INPUT + PLAN_PRESENT)
            return true;
    return false;
}

static void run_chunk(runner *r, const plan_pass *pass, const chunk *c)
{
    void *arrays[PLAN_MAX_SLOTS];
    for (int s = 0; s < pass->nslots; s++)
        arrays[s] = slot_at(r, pass, pass->slot[s], c);
    if (r->a->far)
        prog_run_far(pass->elements, arrays, c->n, r->scratch);
    else
        prog_run(pass->elements, arrays, c->n, r->scratch);
}

static const void *input_of(runner *r, const plan_pass *pass, int64_t from, int64_t n)
{
    return reads_input(pass) ? r->a->input(r->a->arg, from, n, r->input) : NULL;
}

/* Adding up waits for each addition, so GROUP chunks are added side by side: their results are the
 * same as one by one. */
static void sum_group(runner *r, const plan_pass *pass, int64_t first)
{
    for (int s = 0; s < pass->nsums; s++) {
        const void *terms = r->terms + (int64_t)s * GROUP * CHUNK_BYTES;
        double *blocks = r->s->blocks + s * r->s->nchunks + first;
        bool single = r->p->number_type[pass->sum[s]] == PROG_F32;
        if (single)
            sum_floats(blocks, pass->elements->kernels, terms);
        else
            sum_doubles(blocks, terms);
    }
}

static void run_group(runner *r, const plan_pass *pass, int64_t first)
{
    int64_t size = r->a->size, left = r->s->nchunks - first, lanes = left < GROUP ? left : GROUP;
    bool whole = (first + GROUP) * PLAN_CHUNK <= size;
    for (int lane = 0; lane < lanes; lane++) {
        int64_t from = (first + lane) * PLAN_CHUNK;
        int64_t n = size - from < PLAN_CHUNK ? size - from : PLAN_CHUNK;
        int64_t term = whole ? lane * PLAN_CHUNK : 0;
        run_chunk(r, pass, &(chunk){from, from, n, input_of(r, pass, from, n), term});
        if (!whole)
            for (int s = 0; s < pass->nsums; s++)
                r->s->blocks[s * r->s->nchunks + first + lane] = sum_chunk(r, pass, s, n);
    }
    if (whole)
        sum_group(r, pass, first);
}

/* A pass over a whole array, cut into parts. */
typedef struct sweep {
    shared *s;
    const plan_pass *pass;
} sweep;

static void run_part(void *arg, int64_t part, int worker)
{
    const sweep *w = arg;
    runner *r = worker_of(w->s, worker);
    int64_t to = (part + 1) * PART_CHUNKS;
    to = to < w->s->nchunks ? to : w->s->nchunks;
    for (int64_t first = part * PART_CHUNKS; first < to; first += GROUP)
        run_group(r, w->pass, first);
}

/* The sums of the chunks, from left to right. */
static void join_blocks(shared *s, const plan_pass *pass)
{
    for (int i = 0; i < pass->nsums; i++) {
        total t = {0};
        bool single = s->p->number_type[pass->sum[i]] == PROG_F32;
        for (int64_t c = 0; c < s->nchunks; c++) {
            t.block = s->blocks[i * s->nchunks + c];
            end_block(&t, single);
        }
        put_number(s, pass->sum[i], t.sum);
    }
}

static void sweep_array(shared *s, const plan_pass *pass)
{
    sweep w = {s, pass};
    int64_t nparts = (s->nchunks + PART_CHUNKS - 1) / PART_CHUNKS;
    if (plan_is_parallel(s->a->size))
        pool_run(nparts, run_part, &w);
    else
        for (int64_t part = 0; part < nparts; part++)
            run_part(&w, part, 0);
    join_blocks(s, pass);
}

/* The elements of the present rows, laid end to end. */
static void run_present(runner *r, const plan_pass *pass)
{
    const plan_arrays *a = r->a;
    bool input = reads_input(pass);
    for (int64_t k = 0; k < a->nrows;) {
        int64_t next = k + 1;
        while (next < a->nrows && a->rows[next] == a->rows[next - 1] + 1)
            next++;
        int64_t n = (next - k) * a->row;
        for (int64_t i = 0; i < n; i += PLAN_CHUNK) {
            int64_t m = n - i < PLAN_CHUNK ? n - i : PLAN_CHUNK;
            int64_t at = k * a->row + i;
            const void *in = input ? a->input_rows(a->arg, at, m, r->input) : NULL;
            run_chunk(r, pass, &(chunk){a->rows[k] * a->row + i, at, m, in, 0});
            add_terms(r, pass, m);
        }
        k = next;
    }
}

/* One pass over the array or its present rows. */
static void run_pass(shared *s, const plan_pass *pass)
{
    runner *r = worker_of(s, 0);
    if (pass->numbers)
        prog_run(pass->numbers, s->cell, 1, r->scratch);
    if (!pass->elements)
        return;
    copy_numbers(s, pass);
    if (!pass->present || !s->a->rows) {
        sweep_array(s, pass);
        return;
    }
    memset(r->totals, 0, (size_t)pass->nsums * sizeof *r->totals);
    run_present(r, pass);
    end_sums(r, pass);
}

/* ---- Batches of rows ------------------------------------------------------------------------- */

/* For each of n elements the number of its row: x[0] for the first `row` of them, and so on. */
static void spread_floats(float *to, const kernel_table *kernels, const float *x, int64_t n,
                          int64_t row)
{
    kernel_loop *fill = kernels->run[PROG_F32][KERNEL_FILL];
    for (; n > 0; n -= row, to += row, x++) {
        float k[KERNEL_CONSTANTS] = {*x};
        int64_t m = n < row ? n : row;
        if (m >= KERNEL_LANES)
            fill(to, to, to, to, k, m);
        else
            for (int64_t i = 0; i < m; i++)
                to[i] = *x;
    }
}

static void spread_words(uint64_t *to, const uint64_t *x, int64_t n, int64_t row)
{
    for (; n > 0; n -= row, to += row, x++)
        for (int64_t i = 0; i < row && i < n; i++)
            to[i] = *x;
}

/* The numbers that a pass reads, for n elements from row j of the batch on. */
static void spread_numbers(runner *r, const plan_pass *pass, int64_t j, int64_t n)
{
    for (int s = 0; s < pass->nslots; s++) {
        int i = pass->slot[s] - PLAN_PRIVATE;
        if (i < 0 || i >= PLAN_MAX_NUMBERS)
            continue;
        size_t bytes = number_bytes(r->p, i);
        void *to = number_at(r, i);
        const void *x = (const char *)r->batch.cell[i] + (size_t)j * bytes;
        if (r->a->row == 1)
            memcpy(to, x, (size_t)n * bytes);
        else if (bytes == 4)
            spread_floats(to, pass->elements->kernels, x, n, r->a->row);
        else
            spread_words(to, x, n, r->a->row);
    }
}

/* sums[l] += each of the n terms of lane l, one after the other. */
static void add_float_lanes(float *sums, const kernel_table *kernels, const float *terms,
                            int64_t stride, int64_t lanes, int64_t n)
{
    int64_t done = lanes == GROUP ? n - n % GROUP : 0; /* 0 for n < GROUP */
    if (done > 0)
        kernels->sum(sums, terms, stride, done);
    for (int64_t l = 0; l < lanes; l++) {
        float sum = sums[l];
        for (int64_t i = done; i < n; i++)
            sum += terms[l * stride + i];
        sums[l] = sum;
    }
}

static void add_double_lanes(double *sums, const double *terms, int64_t stride, int64_t lanes,
                             int64_t n)
{
    int64_t done = lanes == GROUP ? n : 0;
    for (int64_t i = 0; i < done; i++)
        for (int l = 0; l < GROUP; l++)
            sums[l] += terms[l * stride + i];
    for (int64_t l = 0; l < lanes; l++)
        for (int64_t i = done; i < n; i++)
            sums[l] += terms[l * stride + i];
}

/* Adds the blocks of n terms of the rows from j on, `stride` apart, to the rows' sums. A block
 * begins at 0: the sums that it is added to are 0 when it is the only one, so that it stays. */
static void add_blocks(runner *r, const plan_pass *pass, int64_t j, int64_t stride, int64_t n)
{
    int64_t lanes = r->batch.n - j < GROUP ? r->batch.n - j : GROUP;
    for (int s = 0; s < pass->nsums; s++) {
        void *cell = r->batch.cell[pass->sum[s]];
        const void *terms = terms_at(r, pass, s, j * stride);
        if (r->p->number_type[pass->sum[s]] == PROG_F32) {
            float block[GROUP] = {0}, *sum = (float *)cell + j;
            add_float_lanes(block, pass->elements->kernels, terms, stride, lanes, n);
            for (int64_t l = 0; l < lanes; l++)
                sum[l] += block[l];
        } else {
            double block[GROUP] = {0}, *sum = (double *)cell + j;
            add_double_lanes(block, terms, stride, lanes, n);
            for (int64_t l = 0; l < lanes; l++)
                sum[l] += block[l];
        }
    }
}

/* The same for a whole batch of rows of few elements, which no lanes are worth setting up for. */
static void add_few(runner *r, const plan_pass *pass)
{
    int64_t row = r->a->row;
    for (int s = 0; s < pass->nsums; s++) {
        void *cell = r->batch.cell[pass->sum[s]];
        const void *terms = terms_at(r, pass, s, 0);
        if (r->p->number_type[pass->sum[s]] == PROG_F32)
            add_float_lanes(cell, NULL, terms, row, r->batch.n, row);
        else
            add_double_lanes(cell, terms, row, r->batch.n, row);
    }
}

/* n elements, those from `skip` on of row j of the batch and of its neighbours. */
static void run_piece(runner *r, const plan_pass *pass, int64_t j, int64_t skip, int64_t n,
                      int64_t term)
{
    const plan_arrays *a = r->a;
    bool present = pass->present && a->rows;
    int64_t from = r->batch.row[j] * a->row + skip;
    int64_t at = present ? r->batch.k[j] * a->row + skip : from;
    chunk c = {from, at, n, NULL, term};
    if (reads_input(pass))
        c.input = present ? a->input_rows(a->arg, at, n, r->input)
                          : a->input(a->arg, from, n, r->input);
    spread_numbers(r, pass, j, n);
    run_chunk(r, pass, &c);
}

/* Whether the pass goes through row j of the batch. */
static bool takes_row(const runner *r, const plan_pass *pass, int64_t j)
{
    return !pass->present || r->batch.k[j] >= 0;
}

/* Rows of which GROUP or more fit a chunk: neighbours are one piece. */
static void run_short_rows(runner *r, const plan_pass *pass)
{
    const batch *b = &r->batch;
    int64_t row = r->a->row;
    for (int64_t j = 0, next; j < b->n; j = next) {
        next = b->whole ? b->n : j + 1;
        if (!takes_row(r, pass, j))
            continue;
        while (next < b->n && b->row[next] == b->row[next - 1] + 1 && takes_row(r, pass, next))
            next++;
        run_piece(r, pass, j, 0, (next - j) * row, j * row);
    }
    if (row < GROUP)
        add_few(r, pass);
    for (int64_t j = 0; row >= GROUP && j < b->n; j += GROUP)
        add_blocks(r, pass, j, row, row);
}

/* Longer rows: a block of each, then the next one of each, so that sums run side by side. */
static void run_long_rows(runner *r, const plan_pass *pass)
{
    int64_t row = r->a->row;
    for (int64_t skip = 0; skip < row; skip += PLAN_CHUNK) {
        int64_t n = row - skip < PLAN_CHUNK ? row - skip : PLAN_CHUNK;
        for (int64_t j = 0; j < r->batch.n; j++)
            if (takes_row(r, pass, j))
                run_piece(r, pass, j, skip, n, j * PLAN_CHUNK);
        add_blocks(r, pass, 0, PLAN_CHUNK, n);
    }
}

static bool has_short_rows(const plan_arrays *a)
{
    return a->row <= PLAN_CHUNK / GROUP;
}

/* All passes of the rows of the batch. */
static void run_batch(runner *r)
{
    batch *b = &r->batch;
    move_rows(r, false);
    for (int i = 0; i < r->p->npasses; i++) {
        const plan_pass *pass = &r->p->pass[i];
        if (pass->numbers)
            prog_run(pass->numbers, b->cell, b->n, r->scratch);
        if (!pass->elements)
            continue;
        for (int s = 0; s < pass->nsums; s++)
            memset(b->cell[pass->sum[s]], 0,
                   (size_t)b->n * number_bytes(r->p, pass->sum[s]));
        if (has_short_rows(r->a))
            run_short_rows(r, pass);
        else
            run_long_rows(r, pass);
    }
    move_rows(r, true);
}

/* How many of the present rows come before `row`. */
static int64_t find_present(const plan_arrays *a, int64_t row)
{
    int64_t low = 0, high = a->nrows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (a->rows[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The rows from `first` on of those that are worked on: the present ones, or every one. */
static void fill_batch(runner *r, int64_t first, int64_t n)
{
    const plan_arrays *a = r->a;
    batch *b = &r->batch;
    bool gather = a->rows && !r->p->every_row;
    int64_t k = a->rows && !gather ? find_present(a, first) : first;
    b->n = n;
    for (int64_t j = 0; j < n; j++) {
        b->row[j] = gather ? a->rows[first + j] : first + j;
        bool present = !a->rows || gather || (k < a->nrows && a->rows[k] == b->row[j]);
        b->k[j] = present ? k : -1;
        k += present;
    }
    b->whole = b->k[0] >= 0 && b->k[n - 1] == b->k[0] + n - 1 && b->row[n - 1] == b->row[0] + n - 1;
}

/* The rows of a key, cut into parts of whole batches. */
typedef struct row_sweep {
    shared *s;
    int64_t nrows, batch, part;
} row_sweep;

static void run_rows_part(void *arg, int64_t part, int worker)
{
    const row_sweep *w = arg;
    runner *r = worker_of(w->s, worker);
    int64_t to = (part + 1) * w->part;
    to = to < w->nrows ? to : w->nrows;
    for (int64_t first = part * w->part; first < to; first += w->batch) {
        fill_batch(r, first, to - first < w->batch ? to - first : w->batch);
        run_batch(r);
    }
}

/* Those rows that are present, or every one. */
static void run_rows(shared *s)
{
    const plan_arrays *a = s->a;
    row_sweep w = {s, a->rows && !s->p->every_row ? a->nrows : a->size / a->row, batch_rows(a), 0};
    if (w.nrows == 0)
        return;
    w.part = has_short_rows(a) ? w.batch * PART_CHUNKS : w.batch;
    int64_t nparts = (w.nrows + w.part - 1) / w.part;
    if (plan_is_parallel(a->size) && nparts > 1)
        pool_run(nparts, run_rows_part, &w);
    else
        for (int64_t part = 0; part < nparts; part++)
            run_rows_part(&w, part, 0);
}

void plan_run(const plan *p, const plan_arrays *a, void *scratch)
{
    shared *s = make_shared(p, a, scratch);
    int workers = count_workers(a->size);
    for (int w = 0; w < workers; w++)
        make_runner(s, s->workers + w * s->worker_bytes);
    if (p->by_rows) {
        run_rows(s);
        return;
    }
    for (int i = 0; i < p->npasses; i++)
        run_pass(s, &p->pass[i]);
    write_prints(s);
}

bool plan_splits(const plan *p, const int64_t *rows)
{
    const plan_pass *pass = &p->pass[0];
    return p->npasses == 1 && !p->by_rows && p->nrows == 0 && pass->nsums == 0 &&
           !(pass->present && rows);
}

void plan_run_part(const plan *p, const plan_arrays *a, int64_t from, int64_t n, void *scratch)
{
    shared *s = make_shared(p, a, scratch);
    const plan_pass *pass = &p->pass[0];
    runner *r = make_runner(s, s->workers);
    if (pass->numbers)
        prog_run(pass->numbers, s->cell, 1, r->scratch);
    if (!pass->elements)
        return;
    copy_numbers(s, pass);
    for (int64_t i = from, end = from + n; i < end; i += PLAN_CHUNK) {
        int64_t m = end - i < PLAN_CHUNK ? end - i : PLAN_CHUNK;
        run_chunk(r, pass, &(chunk){i, i, m, input_of(r, pass, i, m), 0});
    }
}

void plan_print(const plan *p, buf *out)
{
    for (int i = 0; i < p->npasses; i++) {
        buf_printf(out, "pass %d%s\n", i, p->pass[i].present ? ", present rows" : "");
        if (p->pass[i].numbers)
            prog_print(p->pass[i].numbers, out);
        if (p->pass[i].elements)
            prog_print(p->pass[i].elements, out);
    }
}
