/* Running plans by steps. */
#include "vm/plan_grid.h"

#include <string.h>

#include "array/dot.h"
#include "base/kv_assert.h"
#include "engine/pool.h"
#include "vm/kernel_fold.h"

/* Elements of a part of a step, and the most parts that it has. */
enum { PART_ELEMENTS = 1 << 16, MOST_PARTS = 64 };

typedef struct grid_run {
    shared *s;
    const plan_grid *g;
    char *buffers, *product;
    double *partial;
    char *rooms; /* of each worker: chunks for slots that are repeated, then for terms */
    int64_t room_bytes;
} grid_run;

/* A step in the making. */
typedef struct sweep {
    grid_run r;
    const grid_step *step;
    int64_t rows, columns;
    double *partial[]; /* of each reduction: of each row, or of each part */
} sweep;

int64_t plan_grid_length(const plan_grid *g, uint8_t axis)
{
    return axis == PROG_ROWS ? g->rows : axis == PROG_COLUMNS ? g->columns : 1;
}

int64_t plan_grid_part_rows(int64_t rows, int64_t columns)
{
    int64_t least = columns > 0 ? (PART_ELEMENTS + columns - 1) / columns : rows;
    int64_t even = (rows + MOST_PARTS - 1) / MOST_PARTS;
    int64_t n = least > even ? least : even;
    return n > 0 ? n : 1;
}

int64_t plan_grid_parts(int64_t rows, int64_t columns)
{
    int64_t each = plan_grid_part_rows(rows, columns);
    return (rows + each - 1) / each;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static int64_t room_bytes(const plan_grid *g)
{
    return (g->most_slots + g->most_reductions) * CHUNK_BYTES;
}

/* A step has an address for each of its reductions. */
static int64_t sweep_bytes(const plan_grid *g)
{
    return mem_aligned((int64_t)sizeof(sweep) +
                       g->most_reductions * (int64_t)sizeof(double *));
}

int64_t plan_grid_bytes(const plan_grid *g, int workers)
{
    return sweep_bytes(g) + g->buffer_bytes + mem_aligned(g->partial_bytes) +
           mem_aligned(g->product_bytes) + workers * room_bytes(g);
}

static char *buffer_at(const grid_run *r, int buffer)
{
    return r->buffers + r->g->buffers[buffer].offset;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* Elements of a step: some columns of some rows. */
typedef struct piece {
    int64_t row, column, rows, columns;
} piece;

/* The elements of a piece from an array that is shorter: one number, one for each row, or one for
 * each column. */
static void spread(char *to, const char *from, const grid_slot *slot, const piece *p)
{
    int bytes = slot->bytes;
    int64_t n = p->rows * p->columns;
    if (!slot->extent.columns)
        kernel_best()->spread(to, from + (slot->extent.rows ? p->row * bytes : 0), bytes, 0, n,
                              slot->extent.rows ? p->columns : n);
    for (int64_t i = 0; i < p->rows && slot->extent.columns; i++)
        memcpy(to + i * p->columns * bytes, from + p->column * bytes, (size_t)(p->columns * bytes));
}

static bool is_as_long(const grid_slot *slot, const grid_step *step)
{
    return slot->extent.rows == step->extent.rows && slot->extent.columns == step->extent.columns;
}

/* The address at which the elements of a piece begin. */
static void *slot_at(const sweep *w, runner *own, char *room, int64_t s, const piece *p)
{
    const grid_slot *slot = &w->step->slots[s];
    const plan_arrays *a = w->r.s->a;
    int kind = plan_slot_kind(slot->slot), index = plan_slot_index(slot->slot);
    int64_t from = p->row * w->columns + p->column, n = p->rows * p->columns;
    char *chunk_of_slot = room + s * CHUNK_BYTES;
    if (kind == PLAN_TERMS)
        return room + (w->r.g->most_slots + index) * CHUNK_BYTES;
    if (kind < PLAN_ROW_STATE) {
        const void *in = kind == PLAN_INPUT ? a->input(a->arg, from, n, own->input) : NULL;
        return plan_work_array(own, slot->slot, &(chunk){from, from, n, in, 0, NULL});
    }
    char *array = kind == PLAN_BUFFER ? buffer_at(&w->r, index) : *plan_array_of(a, slot->slot);
    if (is_as_long(slot, w->step))
        return array + from * slot->bytes;
    spread(chunk_of_slot, array, slot, p);
    return chunk_of_slot;
}

/* ---- Reductions ------------------------------------------------------------------------------ */

static int64_t partials(const sweep *w, const grid_reduction *f)
{
    int64_t parts = plan_grid_parts(w->rows, w->columns);
    return f->over == PLAN_OVER_COLUMNS ? w->rows
           : f->over == PLAN_OVER_ROWS  ? parts * w->columns
                                        : parts;
}

static void begin_reductions(sweep *w)
{
    double *at = w->r.partial;
    for (int64_t i = 0; i < w->step->nreductions; i++) {
        const grid_reduction *f = &w->step->reductions[i];
        int64_t n = partials(w, f);
        w->partial[i] = at;
        for (int64_t j = 0; j < n; j++)
            at[j] = kernel_fold_begin(f->fold);
        at += n;
    }
}

/* Terms of a piece go to the partial results of its rows, or of its part. */
static void reduce_piece(const sweep *w, int64_t i, const char *terms, const piece *p, int64_t part)
{
    const grid_reduction *f = &w->step->reductions[i];
    double *to = w->partial[i];
    int64_t bytes = p->columns * (f->type == PROG_F32 ? 4 : 8);
    if (f->over == PLAN_OVER_ALL)
        to[part] = kernel_fold_join(
            f->fold, to[part], kernel_fold_row(f->fold, f->type, terms, p->rows * p->columns));
    for (int64_t r = 0; r < p->rows && f->over == PLAN_OVER_COLUMNS; r++)
        to[p->row + r] =
            kernel_fold_join(f->fold, to[p->row + r],
                             kernel_fold_row(f->fold, f->type, terms + r * bytes, p->columns));
    for (int64_t r = 0; r < p->rows && f->over == PLAN_OVER_ROWS; r++)
        kernel_fold_each(f->fold, f->type, to + part * w->columns + p->column, terms + r * bytes,
                         p->columns);
}

/* The results of the parts, from the first to the last. */
static void end_reduction(const sweep *w, int64_t i)
{
    const grid_reduction *f = &w->step->reductions[i];
    char *to = buffer_at(&w->r, f->to);
    int64_t n = f->over == PLAN_OVER_COLUMNS ? w->rows : f->over == PLAN_OVER_ROWS ? w->columns : 1;
    int64_t parts = f->over == PLAN_OVER_COLUMNS ? 1 : plan_grid_parts(w->rows, w->columns);
    int64_t bytes = f->type == PROG_F32 ? 4 : 8;
    for (int64_t j = 0; j < n; j++) {
        double x = kernel_fold_begin(f->fold);
        for (int64_t part = 0; part < parts; part++)
            x = kernel_fold_join(f->fold, x, w->partial[i][part * n + j]);
        prog_number_put(to + j * bytes, f->type, (prog_number){x});
    }
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void run_piece(const sweep *w, int worker, const piece *p, int64_t part)
{
    runner *own = plan_work_worker(w->r.s, worker);
    char *room = w->r.rooms + worker * w->r.room_bytes;
    void *arrays[PROG_MAX_SLOT + 1];
    for (int64_t s = 0; s < w->step->nslots; s++)
        arrays[s] = slot_at(w, own, room, s, p);
    prog_run_with(w->step->program, plan_pool_of(w->r.s->a, w->step->program), arrays,
                  p->rows * p->columns, own->scratch, PROG_NEAR);
    for (int64_t i = 0; i < w->step->nreductions; i++)
        reduce_piece(w, i, room + (w->r.g->most_slots + i) * CHUNK_BYTES, p, part);
}

static void run_part(void *arg, int64_t part, int worker)
{
    const sweep *w = arg;
    int64_t each = plan_grid_part_rows(w->rows, w->columns), row = part * each;
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
    begin_reductions(w);
    if (w->columns > 0)
        pool_run(plan_grid_parts(w->rows, w->columns), run_part, w);
    for (int64_t i = 0; i < w->step->nreductions; i++)
        end_reduction(w, i);
}

enum { TURN_ROWS = 64 };

/* Some columns of the turned matrix: rows of the other. w's rows and columns are those of the
 * result. */
static void turn_part(void *arg, int64_t part, int worker)
{
    const sweep *w = arg;
    const char *from = buffer_at(&w->r, w->step->a);
    char *to = buffer_at(&w->r, w->step->to);
    int64_t bytes = w->r.g->buffers[w->step->to].type == PROG_F32 ? 4 : 8;
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
    const grid_run *r = &w->r;
    const grid_step *step = w->step;
    w->rows = plan_grid_length(r->g, step->extent.rows);
    w->columns = plan_grid_length(r->g, step->extent.columns);
    if (step->kind == GRID_ELEMENTS)
        run_elements(w);
    else if (step->kind == GRID_TURNED)
        pool_run((w->columns + TURN_ROWS - 1) / TURN_ROWS, turn_part, w);
    else
        dot_product(buffer_at(r, step->to), buffer_at(r, step->a), buffer_at(r, step->b), w->rows,
                    plan_grid_length(r->g, step->depth), w->columns,
                    prog_dtype(r->g->buffers[step->to].type), r->product);
}

/* Vectors that the update changed go back to their states. */
static void write_results(const grid_run *r)
{
    for (int64_t i = 0; i < r->g->nresults; i++) {
        const grid_result *result = &r->g->results[i];
        const grid_buffer *b = &r->g->buffers[result->buffer];
        int64_t n = plan_grid_length(r->g, b->extent.rows) *
                    plan_grid_length(r->g, b->extent.columns);
        memcpy(*plan_array_of(r->s->a, result->slot), buffer_at(r, result->buffer),
               (size_t)(n * kv_dtype_bytes(prog_dtype(b->type))));
    }
}

void plan_grid_run(shared *s, char *memory)
{
    const plan_grid *g = s->p->grid;
    if (!kv_assert(s->a->size == g->rows * g->columns, "a plan of %lld rows gets %lld elements",
                   (long long)g->rows, (long long)s->a->size))
        return;
    sweep *w = (sweep *)(void *)memory;
    grid_run r = {.s = s, .g = g, .room_bytes = room_bytes(g)};
    r.buffers = memory + sweep_bytes(g);
    r.partial = (double *)(void *)(r.buffers + g->buffer_bytes);
    r.product = (char *)r.partial + mem_aligned(g->partial_bytes);
    r.rooms = r.product + mem_aligned(g->product_bytes);
    w->r = r;
    for (int64_t k = 0; k < g->nsteps; k++) {
        w->step = &g->steps[k];
        run_step(w);
    }
    write_results(&w->r);
}

/* ---- The plan itself ------------------------------------------------------------------------- */

static void print_slot(const grid_step *step, int64_t s, buf *out)
{
    buf_printf(out, "%sa%lld is ", s > 0 ? ", " : "", (long long)s);
    plan_slot_text(out, step->slots[s].slot);
}

void plan_grid_print(const plan_grid *g, buf *out)
{
    for (int64_t k = 0; k < g->nsteps; k++) {
        const grid_step *step = &g->steps[k];
        buf_printf(out, "step %lld ", (long long)k);
        plan_extent_text(out, step->extent);
        if (step->kind != GRID_ELEMENTS)
            buf_printf(out, ": buffer %d = %s %d %d\n", step->to,
                       step->kind == GRID_MATMUL ? "matmul" : "T", step->a, step->b);
        if (step->kind != GRID_ELEMENTS)
            continue;
        buf_add(out, ": ");
        for (int64_t s = 0; s < step->nslots; s++)
            print_slot(step, s, out);
        for (int64_t i = 0; i < step->nreductions; i++)
            buf_printf(out, ", buffer %d of terms %lld", step->reductions[i].to, (long long)i);
        buf_char(out, '\n');
        prog_print(step->program, out);
    }
}

void plan_grid_free(plan_grid *g)
{
    for (int64_t k = 0; g && k < g->nsteps; k++) {
        prog_free(g->steps[k].program);
        mem_free(g->steps[k].slots);
        mem_free(g->steps[k].reductions);
    }
    if (!g)
        return;
    mem_free(g->steps);
    mem_free(g->buffers);
    mem_free(g->results);
    mem_free(g);
}
