/* Plans by steps: rules that reduce in more than one way, by columns or to a largest number, or
 * that multiply matrices.
 *
 * A key is a matrix of its rows. A step computes elements of one extent (program.h) in one pass
 * over memory, with the reductions of what it computes, or it is one product or turned matrix.
 * Values that a later step of another extent reads, and results of reductions and products, are the
 * numbers of the plan, and lie in buffers; everything else is computed again where it is needed.
 * Steps before it make what a step needs, and only the last ones write the key's arrays.
 *
 * Worked example, stored -= input / colmean(input): a step over (rows, columns) that adds up the
 * columns of input; one over (1, columns) that divides the sums; one over (rows, columns) that
 * writes.
 *
 * Reductions are made in float64 and rounded once. A sum over the elements of a row, or of a chunk
 * of an array, is of lanes (vm/kernel_fold.h). Rows are cut into parts, whose results are added
 * from the first to the last; the parts depend on the extent alone, so that the number of threads
 * changes nothing.
 */
#include <string.h>

#include "array/dot.h"
#include "base/kv_assert.h"
#include "engine/pool.h"
#include "vm/kernel_fold.h"
#include "vm/plan_maker.h"
#include "vm/plan_work.h"

/* Elements of a part of a step, and the most parts that it has. */
enum { PART_ELEMENTS = 1 << 16, MOST_PARTS = 64 };

/* A run, and its step in the making. */
typedef struct sweep {
    shared *s;
    const plan_grid *g;
    char *buffers, *product;
    double *partials;
    char *rooms; /* of each worker: chunks for slots that are repeated */
    const plan_pass *step;
    int64_t rows, columns;
    double *partial[]; /* of each reduction: of each row, or of each part */
} sweep;

static int64_t length(const plan_grid *g, uint8_t axis)
{
    return axis == PROG_ROWS ? g->rows : axis == PROG_COLUMNS ? g->columns : 1;
}

/* Rows of a part of a step over such a matrix, and the parts that there are. */
static int64_t part_rows(int64_t rows, int64_t columns)
{
    int64_t least = columns > 0 ? (PART_ELEMENTS + columns - 1) / columns : rows;
    int64_t even = (rows + MOST_PARTS - 1) / MOST_PARTS;
    int64_t n = least > even ? least : even;
    return n > 0 ? n : 1;
}

static int64_t count_parts(int64_t rows, int64_t columns)
{
    int64_t each = part_rows(rows, columns);
    return (rows + each - 1) / each;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static int number_bytes(const plan *p, int i)
{
    return p->number_type[i] == PROG_F32 ? 4 : 8;
}

static void use_buffer(plan_grid *g, int buffer, int step)
{
    grid_buffer *b = &g->buffers[buffer];
    b->first = b->first < step ? b->first : step;
    b->last = step;
}

static int64_t buffer_bytes(const plan *p, int64_t i)
{
    const grid_buffer *b = &p->grid->buffers[i];
    return length(p->grid, b->extent.rows) * length(p->grid, b->extent.columns) *
           number_bytes(p, (int)i);
}

/* The partial results of a reduction: one of each row; of each part, and of each of its columns. */
static int64_t count_partials(const plan_total *t, int64_t rows, int64_t columns)
{
    return t->over == PLAN_OVER_COLUMNS
               ? rows
               : count_parts(rows, columns) * (t->over == PLAN_OVER_ROWS ? columns : 1);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void plan_grid_measure(plan *p)
{
    plan_grid *g = p->grid;
    for (int64_t i = 0; i < g->nbuffers; i++)
        g->buffers[i].first = p->npasses;
    for (int k = 0; k < p->npasses; k++) {
        const plan_pass *step = &p->pass[k];
        for (int s = 0; s < step->nslots; s++)
            if (plan_slot_kind(step->slot[s]) == PLAN_NUMBER)
                use_buffer(g, plan_slot_index(step->slot[s]), k);
        for (int i = 0; i < step->nsums; i++)
            use_buffer(g, step->sum[i].number, k);
        if (step->does != PLAN_ELEMENTS) {
            use_buffer(g, step->a, k);
            use_buffer(g, step->b, k);
            use_buffer(g, step->to, k);
        }
    }
    for (int i = 0; i < p->nrows; i++)
        use_buffer(g, p->row[i].number, p->npasses);
    /* A buffer has the memory of one of its size whose last user has run, if there is one. */
    for (int64_t i = 0; i < g->nbuffers; i++) {
        grid_buffer *b = &g->buffers[i];
        int64_t bytes = mem_aligned(buffer_bytes(p, i)), j = 0;
        bool taken = true;
        for (; j < i && taken; j++) {
            const grid_buffer *old = &g->buffers[j];
            taken = mem_aligned(buffer_bytes(p, j)) != bytes;
            for (int64_t k = 0; k < i && !taken; k++)
                taken = g->buffers[k].offset == old->offset && g->buffers[k].last >= b->first &&
                        g->buffers[k].first <= b->last;
        }
        b->offset = taken ? g->buffer_bytes : g->buffers[j - 1].offset;
        g->buffer_bytes += taken ? bytes : 0;
    }
    for (int k = 0; k < p->npasses; k++) {
        const plan_pass *step = &p->pass[k];
        int64_t rows = length(g, step->extent.rows), columns = length(g, step->extent.columns);
        int64_t partials = 0;
        for (int i = 0; i < step->nsums; i++)
            partials += count_partials(&step->sum[i], rows, columns);
        g->most_slots = larger(g->most_slots, step->nslots);
        g->partial_bytes = larger(g->partial_bytes, partials * (int64_t)sizeof(double));
        if (step->does == PLAN_PRODUCT)
            g->product_bytes =
                larger(g->product_bytes,
                       dot_product_bytes(rows, length(g, step->depth), columns,
                                         prog_dtype((prog_type)p->number_type[step->to])));
    }
}

/* A step has an address for each of its reductions. */
static int64_t sweep_bytes(const plan *p)
{
    return mem_aligned((int64_t)sizeof(sweep) + p->most_sums * (int64_t)sizeof(double *));
}

int64_t plan_grid_bytes(const plan *p, int workers)
{
    const plan_grid *g = p->grid;
    return sweep_bytes(p) + g->buffer_bytes + mem_aligned(g->partial_bytes) +
           mem_aligned(g->product_bytes) + workers * g->most_slots * CHUNK_BYTES;
}

static char *buffer_at(const sweep *w, int64_t buffer)
{
    return w->buffers + w->g->buffers[buffer].offset;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* Elements of a step: some columns of some rows. */
typedef struct piece {
    int64_t row, column, rows, columns;
} piece;

/* The elements of a piece from an array that is shorter: copies of one number, as many as a block
 * of a program reads; one number for each row; or one for each column. */
static void spread(char *to, const char *from, int bytes, prog_extent extent, const piece *p)
{
    int64_t n = p->rows * p->columns, all = PROG_REG_BYTES / bytes;
    if (plan_graph_is_one(extent))
        kernel_best()->spread(to, from, bytes, 0, n < all ? n : all, n);
    else if (!extent.columns)
        kernel_best()->spread(to, from + p->row * bytes, bytes, 0, n, p->columns);
    for (int64_t i = 0; i < p->rows && extent.columns; i++)
        memcpy(to + i * p->columns * bytes, from + p->column * bytes, (size_t)(p->columns * bytes));
}

/* The address at which the elements of a piece begin. */
static void *slot_at(const sweep *w, runner *own, char *room, int s, const piece *p)
{
    int slot = w->step->slot[s], kind = plan_slot_kind(slot), i = plan_slot_index(slot);
    int64_t from = p->row * w->columns + p->column, n = p->rows * p->columns;
    if (kind == PLAN_TERMS || kind < PLAN_ROW_STATE) {
        const void *in = kind == PLAN_INPUT ? plan_work_input(own, w->step, from, from, n) : NULL;
        return plan_work_slot(own, w->step, slot, &(chunk){from, from, n, in, 0, NULL});
    }
    bool number = kind == PLAN_NUMBER;
    prog_extent extent = number ? w->g->buffers[i].extent : plan_graph_extent(slot);
    char *array = number ? buffer_at(w, i) : *plan_array_of(w->s->a, slot);
    int64_t bytes = number ? number_bytes(w->s->p, i) : plan_work_bytes_of(own, slot);
    if (plan_graph_same(extent, w->step->extent))
        return array + from * bytes;
    spread(room + s * CHUNK_BYTES, array, (int)bytes, extent, p);
    return room + s * CHUNK_BYTES;
}

/* ---- Reductions ------------------------------------------------------------------------------ */

/* Terms of a piece go to the partial results of its rows, or of its part. */
static void reduce_piece(const sweep *w, int i, const char *terms, const piece *p, int64_t part)
{
    const plan_total *t = &w->step->sum[i];
    plan_fold fold = (plan_fold)t->fold;
    prog_type type = (prog_type)w->s->p->number_type[t->number];
    double *to = w->partial[i];
    int64_t bytes = p->columns * number_bytes(w->s->p, t->number);
    if (t->over == PLAN_OVER_ALL)
        to[part] = kernel_fold_join(fold, to[part],
                                    kernel_fold_row(fold, type, terms, p->rows * p->columns));
    for (int64_t r = 0; r < p->rows && t->over == PLAN_OVER_COLUMNS; r++)
        to[p->row + r] = kernel_fold_join(
            fold, to[p->row + r], kernel_fold_row(fold, type, terms + r * bytes, p->columns));
    for (int64_t r = 0; r < p->rows && t->over == PLAN_OVER_ROWS; r++)
        kernel_fold_each(fold, type, to + part * w->columns + p->column, terms + r * bytes,
                         p->columns);
}

/* The results of the parts, from the first to the last. */
static void end_reduction(const sweep *w, int i)
{
    const plan_total *t = &w->step->sum[i];
    int64_t n = t->over == PLAN_OVER_COLUMNS ? w->rows : t->over == PLAN_OVER_ROWS ? w->columns : 1;
    int64_t parts = t->over == PLAN_OVER_COLUMNS ? 1 : count_parts(w->rows, w->columns);
    for (int64_t j = 0; j < n; j++) {
        double x = kernel_fold_begin((plan_fold)t->fold);
        for (int64_t part = 0; part < parts; part++)
            x = kernel_fold_join((plan_fold)t->fold, x, w->partial[i][part * n + j]);
        prog_number_put(buffer_at(w, t->number) + j * number_bytes(w->s->p, t->number),
                        (prog_type)w->s->p->number_type[t->number], (prog_number){x});
    }
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void run_piece(const sweep *w, int worker, const piece *p, int64_t part)
{
    const plan_pass *step = w->step;
    runner *own = plan_work_worker(w->s, worker);
    char *room = w->rooms + worker * w->g->most_slots * CHUNK_BYTES;
    void *arrays[PROG_MAX_SLOT + 1];
    for (int s = 0; s < step->nslots; s++)
        arrays[s] = slot_at(w, own, room, s, p);
    prog_run_with(step->program, plan_pool_of(w->s->a, step->program), arrays, p->rows * p->columns,
                  own->scratch, false);
    for (int i = 0; i < step->nsums; i++)
        reduce_piece(w, i, plan_work_terms(own, step, i, 0, 0), p, part);
}

static void run_part(void *arg, int64_t part, int worker)
{
    const sweep *w = arg;
    int64_t each = part_rows(w->rows, w->columns), row = part * each;
    int64_t end = w->rows - row < each ? w->rows : row + each;
    int64_t some = w->columns < PLAN_CHUNK ? PLAN_CHUNK / w->columns : 1; /* rows of a chunk */
    while (row < end) {
        piece p = {.row = row, .rows = end - row < some ? end - row : some};
        for (; p.column < w->columns; p.column += PLAN_CHUNK) {
            int64_t left = w->columns - p.column;
            p.columns = left < PLAN_CHUNK ? left : PLAN_CHUNK;
            run_piece(w, worker, &p, part);
        }
        row += p.rows;
    }
}

static void run_elements(sweep *w)
{
    double *at = w->partials;
    for (int i = 0; i < w->step->nsums; i++) {
        const plan_total *t = &w->step->sum[i];
        int64_t n = count_partials(t, w->rows, w->columns);
        w->partial[i] = at;
        for (int64_t j = 0; j < n; j++)
            at[j] = kernel_fold_begin((plan_fold)t->fold);
        at += n;
    }
    if (w->columns > 0)
        pool_run(count_parts(w->rows, w->columns), run_part, w);
    for (int i = 0; i < w->step->nsums; i++)
        end_reduction(w, i);
}

enum { TURN_ROWS = 64 };

/* Some columns of the turned matrix: rows of the other. w's rows and columns are those of the
 * result. */
static void turn_part(void *arg, int64_t part, int worker)
{
    const sweep *w = arg;
    const char *from = buffer_at(w, w->step->a);
    char *to = buffer_at(w, w->step->to);
    int64_t bytes = number_bytes(w->s->p, w->step->to);
    int64_t first = part * TURN_ROWS, left = w->columns - first;
    int64_t n = left < TURN_ROWS ? left : TURN_ROWS;
    (void)worker;
    for (int64_t row = 0; row < w->rows; row++) {
        char *x = to + (row * w->columns + first) * bytes;
        const char *y = from + (first * w->rows + row) * bytes;
        for (int64_t c = 0; c < n && bytes == 4; c++)
            memcpy(x + c * 4, y + c * w->rows * 4, 4);
        for (int64_t c = 0; c < n && bytes == 8; c++)
            memcpy(x + c * 8, y + c * w->rows * 8, 8);
    }
}

static void run_step(sweep *w)
{
    const plan_pass *step = w->step;
    w->rows = length(w->g, step->extent.rows);
    w->columns = length(w->g, step->extent.columns);
    if (step->does == PLAN_ELEMENTS)
        run_elements(w);
    else if (step->does == PLAN_TURN)
        pool_run((w->columns + TURN_ROWS - 1) / TURN_ROWS, turn_part, w);
    else
        dot_product(buffer_at(w, step->to), buffer_at(w, step->a), buffer_at(w, step->b), w->rows,
                    length(w->g, step->depth), w->columns,
                    prog_dtype((prog_type)w->s->p->number_type[step->to]), w->product);
}

void plan_grid_run(shared *s, char *memory)
{
    const plan *p = s->p;
    const plan_grid *g = p->grid;
    if (!kv_assert(s->a->size == g->rows * g->columns, "a plan of %lld rows gets %lld elements",
                   (long long)g->rows, (long long)s->a->size))
        return;
    sweep *w = (sweep *)(void *)memory;
    *w = (sweep){.s = s, .g = g, .buffers = memory + sweep_bytes(p)};
    w->partials = (double *)(void *)(w->buffers + g->buffer_bytes);
    w->product = (char *)w->partials + mem_aligned(g->partial_bytes);
    w->rooms = w->product + mem_aligned(g->product_bytes);
    for (int k = 0; k < p->npasses; k++) {
        w->step = &p->pass[k];
        run_step(w);
    }
    for (int i = 0; i < p->nrows; i++)
        memcpy(*plan_array_of(s->a, p->row[i].slot), buffer_at(w, p->row[i].number),
               (size_t)buffer_bytes(p, p->row[i].number));
}
