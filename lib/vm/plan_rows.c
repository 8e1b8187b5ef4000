/* Plans of rules by rows, which take rows in batches: a number becomes an array of one for each row
 * of the batch, so that one run of a program, over the elements of neighbours or over numbers,
 * serves many rows. Batches do not depend on each other: each is one worker's.
 */
#include "vm/plan_rows.h"

#include <string.h>

#include "array/row_ids.h"
#include "base/kv_assert.h"
#include "engine/pool.h"

/* ---- Numbers of rows ------------------------------------------------------------------------- */

char *plan_rows_cell(const plan_arrays *a, const plan_row *m, int64_t row, int64_t k, size_t bytes)
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

static void move_number(const runner *r, const plan_row *m, int64_t j, int64_t n)
{
    size_t bytes = plan_work_number_bytes(r->p, m->number);
    char *at = plan_rows_cell(r->a, m, r->batch.row[j], r->batch.k[j], bytes);
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
        size_t bytes = plan_work_number_bytes(r->p, i);
        void *to = plan_work_number(r, i);
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
        void *cell = r->batch.cell[pass->sum[s].number];
        const void *terms = plan_work_terms(r, pass, s, j * stride);
        if (r->p->number_type[pass->sum[s].number] == PROG_F32) {
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
        void *cell = r->batch.cell[pass->sum[s].number];
        const void *terms = plan_work_terms(r, pass, s, 0);
        if (r->p->number_type[pass->sum[s].number] == PROG_F32)
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
    if (pass->reads_input)
        c.input =
            present ? a->input_rows(a->arg, at, n, r->input) : a->input(a->arg, from, n, r->input);
    spread_numbers(r, pass, j, n);
    plan_work_chunk(r, pass, &c);
}

/* Returns true if the pass works on row j of the batch. */
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
            memset(b->cell[pass->sum[s].number], 0,
                   (size_t)b->n * plan_work_number_bytes(r->p, pass->sum[s].number));
        if (has_short_rows(r->a))
            run_short_rows(r, pass);
        else
            run_long_rows(r, pass);
    }
    move_rows(r, true);
}

/* The rows to work on, from `first` on: the present ones, or every one. */
static void fill_batch(runner *r, int64_t first, int64_t n)
{
    const plan_arrays *a = r->a;
    batch *b = &r->batch;
    bool gather = a->rows && !r->p->every_row;
    kv_assert(n > 0 && n <= plan_work_batch_rows(a), "a batch of %lld rows has room for %lld",
              (long long)n, (long long)plan_work_batch_rows(a));
    int64_t k = a->rows && !gather ? row_ids_find(a->rows, 0, a->nrows, first) : first;
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
    runner *r = plan_work_worker(w->s, worker);
    int64_t to = (part + 1) * w->part;
    to = to < w->nrows ? to : w->nrows;
    for (int64_t first = part * w->part; first < to; first += w->batch) {
        fill_batch(r, first, to - first < w->batch ? to - first : w->batch);
        run_batch(r);
    }
}

/* The rows that are present, or every row. */
void plan_rows_run(shared *s)
{
    const plan_arrays *a = s->a;
    kv_assert(a->row > 0, "a rule goes by rows of %lld elements", (long long)a->row);
    row_sweep w = {s, a->rows && !s->p->every_row ? a->nrows : a->size / a->row,
                   plan_work_batch_rows(a), 0};
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
