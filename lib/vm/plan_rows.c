/* Plans of rules by rows, which take rows in batches: a number becomes an array of one for each row
 * of the batch, so that one run of a program, over the elements of neighbours or over numbers,
 * serves many rows. Batches do not depend on each other: each is one worker's.
 */
#include <string.h>

#include "array/sparse.h"
#include "base/kv_assert.h"
#include "engine/pool.h"
#include "vm/plan_work.h"

/* ---- Numbers of rows ------------------------------------------------------------------------- */

char *plan_rows_cell(const plan_arrays *a, const plan_row *m, int64_t row, int64_t k, size_t bytes)
{
    int kind = plan_slot_kind(m->slot);
    bool begins = kind == PLAN_ROW_BEGIN, printed = kind == PLAN_ROW_PRINT_PRESENT;
    if (m->write && kind != PLAN_ROW_PRINT && (k < 0) != begins)
        return NULL;
    return (char *)*plan_array_of(a, m->slot) + (size_t)(printed ? k : row) * bytes;
}

static int64_t row_at(const batch *b, int64_t j)
{
    return b->whole ? b->row[0] + j : b->row[j];
}

static int64_t present_at(const batch *b, int64_t j)
{
    return b->whole ? b->k[0] + j : b->k[j];
}

static void move_number(const runner *r, const plan_row *m, int64_t j, int64_t n)
{
    size_t bytes = plan_work_number_bytes(r->p, m->number);
    char *at = plan_rows_cell(r->a, m, row_at(&r->batch, j), present_at(&r->batch, j), bytes);
    char *cell = (char *)r->batch.cell[m->number] + (size_t)j * bytes;
    if (at && m->write)
        memcpy(at, cell, (size_t)n * bytes);
    else if (at)
        memcpy(cell, at, (size_t)n * bytes);
    for (size_t i = 0; at && r->a->far && i < (size_t)n * bytes; i += 64) /* the next batch's */
        __builtin_prefetch(at + (size_t)n * bytes + i, 0, 2);
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

/* The numbers that a pass reads, for n elements from number `skip` of row j of the batch on. */
static void spread_numbers(runner *r, const plan_pass *pass, int64_t j, int64_t skip, int64_t n)
{
    for (int s = 0; s < pass->nslots; s++) {
        int i = plan_slot_index(pass->slot[s]);
        if (plan_slot_kind(pass->slot[s]) != PLAN_NUMBER)
            continue;
        size_t bytes = plan_work_number_bytes(r->p, i);
        void *to = plan_work_number(r, i);
        const void *x = (const char *)r->batch.cell[i] + (size_t)j * bytes;
        if (r->a->row == 1)
            memcpy(to, x, (size_t)n * bytes);
        else
            pass->program->kernels->spread(to, x, (int)bytes, skip, n, r->a->row);
    }
}

/* The memory is asked ahead for so many elements of a row that is longer than a chunk, and for a
 * batch of shorter ones. */
enum { ROW_AHEAD = 256 };

/* Adds n terms of each of so many rows to their sums, a group after the other: rows are read almost
 * in the order of the memory then, which is worth more than sums of several groups that run side by
 * side. */
static void add_rows(const kernel_table *kernels, prog_type type, kernel_terms all, int64_t rows,
                     int64_t n)
{
    int64_t bytes = type == PROG_F32 ? 4 : 8;
    bool whole = type == PROG_F32 && n % GROUP == 0;
    for (int64_t j = 0; j < rows; j += GROUP) {
        kernel_terms own = all;
        own.sums = (char *)all.sums + j * bytes;
        own.x = (const char *)all.x + j * all.stride * bytes;
        if (whole && rows - j >= GROUP)
            kernels->sum(&own, 1, n);
        else
            plan_work_sum(type, &own, 1, (int)(rows - j < GROUP ? rows - j : GROUP), n);
    }
}

/* Adds the blocks of n terms of all rows of the batch to their sums. A block begins at 0, as the
 * sums do: the first one is added up in them. Where others follow, the batch is a group. The sum of
 * one element is 0 plus that element; a square is not -0, so that it is the sum itself. */
static void add_blocks(runner *r, const plan_pass *pass, const kernel_table *kernels, int64_t skip,
                       int64_t stride, int64_t n)
{
    int64_t rows = r->batch.n, row = r->a->row;
    kv_assert(skip == 0 || rows <= GROUP, "%lld long rows", (long long)rows);
    for (int s = 0; s < pass->nsums; s++) {
        int number = pass->sum[s].number;
        prog_type type = (prog_type)r->p->number_type[number];
        void *sums = r->batch.cell[number];
        union {
            float single[GROUP];
            double wide[GROUP];
        } block = {.wide = {0}};
        /* of row 0 of the batch and of the rows behind it: neighbours, where arrays hold the terms
         */
        bool array = pass->sum[s].array >= 0;
        int64_t next = row <= PLAN_CHUNK ? row * rows : ROW_AHEAD;
        kernel_terms own = {.x = plan_work_terms(r, pass, s, r->batch.row[0] * row + skip, 0),
                            .stride = array ? row : stride,
                            .ahead = array && r->a->far ? next : 0,
                            .squares = pass->sum[s].squares};
        if (row == 1 && own.squares) {
            kernels->run[type][PROG_MUL](sums, own.x, own.x, NULL, rows);
        } else if (row == 1) {
            kernels->run[type][PROG_ADD](sums, sums, own.x, NULL, rows);
        } else {
            own.sums = skip > 0 ? (void *)&block : sums;
            add_rows(kernels, type, own, rows, n);
            if (skip > 0)
                kernels->run[type][PROG_ADD](sums, sums, &block, NULL, rows);
        }
    }
}

/* n elements, those from `skip` on of row j of the batch and of its neighbours. */
static void run_piece(runner *r, const plan_pass *pass, int64_t j, int64_t skip, int64_t n,
                      int64_t term)
{
    int64_t from = row_at(&r->batch, j) * r->a->row + skip;
    int64_t at = pass->present ? present_at(&r->batch, j) * r->a->row + skip : from;
    spread_numbers(r, pass, j, skip, n);
    plan_work_chunk(r, pass, (chunk){.from = from, .at = at, .n = n, .term = term});
}

/* Returns true if the pass works on row j of the batch. */
static bool takes_row(const runner *r, const plan_pass *pass, int64_t j)
{
    return !pass->present || present_at(&r->batch, j) >= 0;
}

/* Rows of at most a chunk: neighbours are worked on together. */
static void run_short_rows(runner *r, const plan_pass *pass, const kernel_table *kernels)
{
    const batch *b = &r->batch;
    int64_t row = r->a->row;
    for (int64_t j = 0, next; j < b->n && pass->nslots > 0; j = next) {
        next = b->whole ? b->n : j + 1;
        if (!takes_row(r, pass, j))
            continue;
        while (next < b->n && b->row[next] == b->row[next - 1] + 1 && takes_row(r, pass, next))
            next++;
        int64_t n = (next - j) * row;
        for (int64_t i = 0; i < n; i += PLAN_CHUNK)
            run_piece(r, pass, j + i / row, i % row, n - i < PLAN_CHUNK ? n - i : PLAN_CHUNK,
                      j * row + i);
    }
    add_blocks(r, pass, kernels, 0, row, row);
}

/* All passes of the rows of the batch. */
static void run_batch(runner *r)
{
    batch *b = &r->batch;
    int64_t row = r->a->row;
    move_rows(r, false);
    for (int i = 0; i < r->p->npasses; i++) {
        const plan_pass *pass = &r->p->pass[i];
        if (plan_pass_is_of_numbers(pass)) {
            plan_work_numbers(r, pass, b->cell, b->n);
            continue;
        }
        const kernel_table *kernels = pass->program->kernels;
        if (pass->lean && r->s->lean)
            pass = pass->lean;
        for (int s = 0; s < pass->nsums; s++)
            memset(b->cell[pass->sum[s].number], 0,
                   (size_t)b->n * plan_work_number_bytes(r->p, pass->sum[s].number));
        if (row <= PLAN_CHUNK)
            run_short_rows(r, pass, kernels);
        /* longer rows: a block of each, then the next one of each, so that sums run side by side */
        for (int64_t skip = 0; skip < row && row > PLAN_CHUNK; skip += PLAN_CHUNK) {
            int64_t n = row - skip < PLAN_CHUNK ? row - skip : PLAN_CHUNK;
            for (int64_t j = 0; j < b->n && pass->nslots > 0; j++)
                if (takes_row(r, pass, j))
                    run_piece(r, pass, j, skip, n, j * PLAN_CHUNK);
            add_blocks(r, pass, kernels, skip, PLAN_CHUNK, n);
        }
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
    b->row[0] = b->k[0] = first;
    b->whole = !a->rows;
    if (b->whole)
        return;
    for (int64_t j = 0; j < n; j++) {
        b->row[j] = gather ? a->rows[first + j] : first + j;
        bool present = gather || (k < a->nrows && a->rows[k] == b->row[j]);
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
    w.part = (PART_CHUNKS * PLAN_CHUNK / a->row + w.batch - 1) / w.batch * w.batch;
    w.part = w.part > 0 ? w.part : w.batch;
    int64_t nparts = (w.nrows + w.part - 1) / w.part;
    if (plan_is_parallel(a->size) && nparts > 1)
        pool_run(nparts, run_rows_part, &w);
    else
        for (int64_t part = 0; part < nparts; part++)
            run_rows_part(&w, part, 0);
}
