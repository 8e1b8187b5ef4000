/* Plans, second half: running passes over the arrays of a key.
 *
 * A pass goes through its elements chunk by chunk. What it goes through is an extent: the whole
 * array, one row, or the present rows laid end to end. In the last, a chunk is cut at the ends of
 * runs of neighbouring rows, since stored and states have gaps there while the input has none.
 */
#include "vm/plan_run.h"

#include <string.h>

#include "array/device.h"
#include "base/philox.h"
#include "engine/pool.h"

/* Arrays of fewer elements are not worth waking a thread for. */
enum { PARALLEL_SIZE = 1 << 17 };

int plan_run_most_sums(const plan *p)
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
    return plan_run_aligned(most);
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

/* Terms have room for GROUP chunks. */
static int64_t runner_bytes(const plan *p, int64_t size, int64_t room_bytes)
{
    return plan_run_aligned(sizeof(runner)) +
           (int64_t)(GROUP * plan_run_most_sums(p) + count_draws(p) + 1) * CHUNK_BYTES +
           plan_run_aligned(room_bytes) + plan_rows_bytes(p, size) + program_bytes(p);
}

static int64_t shared_bytes(const plan *p, int64_t size)
{
    return plan_run_aligned(sizeof(shared)) +
           plan_run_aligned((int64_t)p->nnumbers * PROG_REG_BYTES) +
           plan_run_aligned(plan_run_most_sums(p) * count_chunks(size) * (int64_t)sizeof(double));
}

int64_t plan_scratch_bytes(const plan *p, int64_t size, int64_t room_bytes)
{
    return shared_bytes(p, size) + count_workers(size) * runner_bytes(p, size, room_bytes);
}

static runner *make_runner(shared *s, char *memory)
{
    runner *r = (runner *)(void *)memory;
    r->s = s;
    r->p = s->p;
    r->a = s->a;
    r->terms = memory + plan_run_aligned(sizeof *r);
    r->normals = r->terms + (int64_t)GROUP * plan_run_most_sums(s->p) * CHUNK_BYTES;
    r->input = r->normals + (int64_t)count_draws(s->p) * CHUNK_BYTES;
    char *rows = r->input + CHUNK_BYTES + plan_run_aligned(s->a->room_bytes);
    r->scratch = rows + plan_rows_bytes(s->p, s->a->size);
    if (s->p->by_rows)
        plan_rows_init(r, rows);
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
    s->copies = memory + plan_run_aligned(sizeof *s);
    s->blocks =
        (double *)(void *)(s->copies + plan_run_aligned((int64_t)p->nnumbers * PROG_REG_BYTES));
    s->workers = memory + shared_bytes(p, a->size);
    return s;
}

runner *plan_run_worker(shared *s, int worker)
{
    return (runner *)(void *)(s->workers + worker * s->worker_bytes);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void put_number(shared *s, int i, double x)
{
    float f = (float)x;
    if (s->p->number_type[i] == PROG_F32)
        memcpy(&s->number[i], &f, sizeof f);
    else
        memcpy(&s->number[i], &x, sizeof x);
}

/* Blocks of copies of the numbers that a pass reads. */
static void copy_numbers(shared *s, const plan_pass *pass)
{
    for (int k = 0; k < pass->nslots; k++) {
        int i = pass->slot[k] - PLAN_PRIVATE;
        if (i < 0 || i >= PLAN_MAX_NUMBERS)
            continue;
        char *to = s->copies + (int64_t)i * PROG_REG_BYTES;
        size_t bytes = plan_run_number_bytes(s->p, i);
        for (size_t at = 0; at < PROG_REG_BYTES; at += bytes)
            memcpy(to + at, &s->number[i], bytes);
    }
}

/* Numbers of a whole array that are printed. */
static void write_prints(const shared *s)
{
    for (int i = 0; i < s->p->nrows; i++) {
        const plan_row *m = &s->p->row[i];
        size_t bytes = plan_run_number_bytes(s->p, m->number);
        char *at = plan_rows_cell(s->a, m, 0, 0, bytes);
        if (at && m->write)
            memcpy(at, &s->number[m->number], bytes);
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
        const char *x = plan_run_terms(r, pass, s, 0);
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
    const void *x = plan_run_terms(r, pass, s, 0);
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

static char *print_at(const plan_arrays *a, int slot, const chunk *c)
{
    int i = slot % PLAN_PRESENT - PLAN_PRINT;
    int64_t first = slot >= PLAN_PRESENT ? c->at : c->from;
    return (char *)a->prints[i] + first * kv_dtype_bytes(a->print_dtypes[i]);
}

char *plan_run_terms(const runner *r, const plan_pass *pass, int sum, int64_t term)
{
    return r->terms + (int64_t)sum * GROUP * CHUNK_BYTES +
           term * (int64_t)plan_run_number_bytes(r->p, pass->sum[sum]);
}

char *plan_run_number(const runner *r, int i)
{
    return r->p->by_rows ? r->batch.spread + (int64_t)i * CHUNK_BYTES
                         : r->s->copies + (int64_t)i * PROG_REG_BYTES;
}

/* Bytes of an element of a state. */
static int64_t state_bytes(const plan *p)
{
    return p->type == PROG_F64 || p->type == PROG_I64 ? 8 : 4;
}

/* Where slot begins for a chunk. */
static void *slot_at(runner *r, const plan_pass *pass, int slot, const chunk *c)
{
    const plan_arrays *a = r->a;
    int64_t from = c->from, bytes = state_bytes(r->p);
    if (slot >= PLAN_PRIVATE + PLAN_MAX_NUMBERS)
        return plan_run_terms(r, pass, slot - PLAN_PRIVATE - PLAN_MAX_NUMBERS, c->term);
    if (slot >= PLAN_PRIVATE)
        return plan_run_number(r, slot - PLAN_PRIVATE);
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

bool plan_run_reads_input(const plan_pass *pass)
{
    for (int s = 0; s < pass->nslots; s++)
        if (pass->slot[s] == PLAN_INPUT || pass->slot[s] == PLAN_INPUT + PLAN_PRESENT)
            return true;
    return false;
}

void plan_run_chunk(runner *r, const plan_pass *pass, const chunk *c)
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
    return plan_run_reads_input(pass) ? r->a->input(r->a->arg, from, n, r->input) : NULL;
}

/* Adding up waits for each addition, so GROUP chunks are added side by side: their results are the
 * same as one by one. */
static void sum_group(runner *r, const plan_pass *pass, int64_t first)
{
    for (int s = 0; s < pass->nsums; s++) {
        const void *terms = plan_run_terms(r, pass, s, 0);
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
        plan_run_chunk(r, pass, &(chunk){from, from, n, input_of(r, pass, from, n), term});
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
    runner *r = plan_run_worker(w->s, worker);
    int64_t to = (part + 1) * PART_CHUNKS;
    to = to < w->s->nchunks ? to : w->s->nchunks;
    for (int64_t first = part * PART_CHUNKS; first < to; first += GROUP)
        run_group(r, w->pass, first);
}

/* The sums of a pass: those of its chunks, in s->blocks, from left to right. */
static void join_sums(shared *s, const plan_pass *pass)
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
    join_sums(s, pass);
}

/* How many rows ahead the memory is asked for what a pass reads of them, and for how many bytes. */
enum { ROWS_AHEAD = 8, ROW_AHEAD_BYTES = 256 };

static void ask_for_row(const plan_arrays *a, const plan_pass *pass, int64_t row, int64_t bytes)
{
    for (int s = 0; s < pass->nslots; s++) {
        int slot = pass->slot[s] - PLAN_PRESENT;
        const char *from = slot == PLAN_STORED ? a->stored
                           : slot >= PLAN_STATE && slot < PLAN_STATE + PLAN_MAX_STATES
                               ? a->states[slot - PLAN_STATE]
                               : NULL;
        int64_t width = slot == PLAN_STORED ? kv_dtype_bytes(a->stored_dtype) : bytes;
        for (int64_t i = 0; from && i < a->row * width && i < ROW_AHEAD_BYTES; i += 64)
            __builtin_prefetch(from + row * a->row * width + i, 1);
    }
}

/* The elements of the present rows from number k to `end`, laid end to end. */
static void run_present(runner *r, const plan_pass *pass, int64_t k, int64_t end)
{
    const plan_arrays *a = r->a;
    bool input = plan_run_reads_input(pass);
    int64_t bytes = state_bytes(r->p);
    while (k < end) {
        int64_t next = k + 1;
        while (next < end && a->rows[next] == a->rows[next - 1] + 1)
            next++;
        if (k + ROWS_AHEAD < end)
            ask_for_row(a, pass, a->rows[k + ROWS_AHEAD], bytes);
        int64_t n = (next - k) * a->row;
        for (int64_t i = 0; i < n; i += PLAN_CHUNK) {
            int64_t m = n - i < PLAN_CHUNK ? n - i : PLAN_CHUNK;
            int64_t at = k * a->row + i;
            const void *in = input ? a->input_rows(a->arg, at, m, r->input) : NULL;
            plan_run_chunk(r, pass, &(chunk){a->rows[k] * a->row + i, at, m, in, 0});
            add_terms(r, pass, m);
        }
        k = next;
    }
}

/* Rows of a part of the present ones. */
static int64_t part_rows(const plan_arrays *a)
{
    int64_t n = PART_CHUNKS * PLAN_CHUNK / a->row;
    return n > 0 ? n : 1;
}

static void run_present_part(void *arg, int64_t part, int worker)
{
    const sweep *w = arg;
    int64_t all = w->s->a->nrows, each = part_rows(w->s->a), from = part * each;
    int64_t end = all - from < each ? all : from + each;
    run_present(plan_run_worker(w->s, worker), w->pass, from, end);
}

/* Threads share what has no sums: those go from left to right. */
static void sweep_present(shared *s, const plan_pass *pass)
{
    int64_t each = part_rows(s->a);
    if (pass->nsums == 0 && plan_is_parallel(s->a->nrows * s->a->row)) {
        pool_run((s->a->nrows + each - 1) / each, run_present_part, &(sweep){s, pass});
        return;
    }
    runner *r = plan_run_worker(s, 0);
    memset(r->totals, 0, (size_t)pass->nsums * sizeof *r->totals);
    run_present(r, pass, 0, s->a->nrows);
    end_sums(r, pass);
}

/* One pass over the array or its present rows. */
static void run_pass(shared *s, const plan_pass *pass)
{
    runner *r = plan_run_worker(s, 0);
    if (pass->numbers)
        prog_run(pass->numbers, s->cell, 1, r->scratch);
    if (!pass->elements)
        return;
    copy_numbers(s, pass);
    if (pass->present && s->a->rows)
        sweep_present(s, pass);
    else
        sweep_array(s, pass);
}

void plan_run(const plan *p, const plan_arrays *a, void *scratch)
{
    shared *s = make_shared(p, a, scratch);
    int workers = count_workers(a->size);
    for (int w = 0; w < workers; w++)
        make_runner(s, s->workers + w * s->worker_bytes);
    if (p->by_rows) {
        plan_rows_run(s);
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
        plan_run_chunk(r, pass, &(chunk){i, i, m, input_of(r, pass, i, m), 0});
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
