/* Plans, second half: running passes over the arrays of a key.
 *
 * A pass goes through its elements chunk by chunk. What it goes through is an extent: the whole
 * array, one row, or the present rows laid end to end. In the last, a chunk is cut at the ends of
 * runs of neighbouring rows, since stored and states have gaps there while the input has none.
 *
 * Every other pass over a whole array goes from its end to its beginning, so that it finds in the
 * caches what the one before it left there.
 */
#include <string.h>

#include "cpu/cpu.h"
#include "engine/pool.h"
#include "vm/plan_work.h"

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Copies of the numbers that a pass reads, as many as a block of its program has elements. */
static void copy_numbers(shared *s, const plan_pass *pass)
{
    for (int k = 0; k < pass->nslots; k++) {
        int i = plan_slot_index(pass->slot[k]);
        if (plan_slot_kind(pass->slot[k]) != PLAN_NUMBER)
            continue;
        int bytes = (int)plan_work_number_bytes(s->p, i);
        int64_t all = PROG_REG_BYTES / bytes, n = s->a->size < all ? s->a->size : all;
        pass->program->kernels->spread(s->copies + (int64_t)i * PROG_REG_BYTES, &s->number[i],
                                       bytes, 0, n, n);
    }
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static prog_type sum_type(const plan *p, const plan_total *sum)
{
    return (prog_type)p->number_type[sum->number];
}

/* Before a pass over n elements. */
static void begin_sums(shared *s, const plan_pass *pass, int64_t n)
{
    s->nblocks = (n + PLAN_CHUNK - 1) / PLAN_CHUNK;
    memset(s->blocks, 0, (size_t)(pass->nsums * s->nblocks) * sizeof *s->blocks);
}

/* The sums of a pass: those of its blocks from left to right. */
static void join_sums(shared *s, const plan_pass *pass)
{
    for (int i = 0; i < pass->nsums; i++) {
        double sum = 0;
        prog_type type = sum_type(s->p, &pass->sum[i]);
        const void *blocks = s->blocks + i * s->nblocks;
        for (int64_t c = 0; c < s->nblocks; c++)
            sum = type == PROG_F32 ? (float)sum + ((const float *)blocks)[c]
                                   : sum + ((const double *)blocks)[c];
        prog_number_put(&s->number[pass->sum[i].number], type, (prog_number){sum});
    }
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* Elements of a chunk for which the memory is asked ahead, where no program reads them before. */
enum { SUM_AHEAD = 256 };

/* The sums of `lanes` chunks of n elements, from element `from` on, whose terms are those from
 * number `term` on. Adding up waits for each addition, so chunks and sums are added up side by
 * side: their results are the same as one by one. */
static void sum_chunks(runner *r, const plan_pass *pass, int64_t from, int64_t term, int lanes,
                       int64_t n)
{
    kernel_terms terms[KERNEL_SUMS];
    int64_t ahead = r->a->far && pass->nslots == 0 ? SUM_AHEAD : 0;
    for (int s = 0, count = 0; s < pass->nsums; s++) {
        const plan_total *sum = &pass->sum[s];
        prog_type type = sum_type(r->p, sum);
        double *blocks = r->s->blocks + s * r->s->nblocks;
        int64_t at = from / PLAN_CHUNK;
        void *to = type == PROG_F32 ? (void *)((float *)blocks + at) : blocks + at;
        terms[count++] = (kernel_terms){to, plan_work_terms(r, pass, s, from, term), PLAN_CHUNK,
                                        ahead, sum->squares};
        bool more = s + 1 < pass->nsums && sum_type(r->p, sum + 1) == type;
        if (count < KERNEL_SUMS && more && sum[1].squares == sum->squares)
            continue;
        plan_work_sum(type, terms, count, lanes, n);
        count = 0;
    }
}

enum { GROUP_SIZE = GROUP * PLAN_CHUNK };

/* The sums of the chunks of a group, n elements from element `from` on. */
static void sum_group(runner *r, const plan_pass *pass, int64_t from, int64_t n)
{
    int64_t whole = n / PLAN_CHUNK, at = whole * PLAN_CHUNK;
    if (whole > 0)
        sum_chunks(r, pass, from, 0, (int)whole, PLAN_CHUNK);
    if (n > at)
        sum_chunks(r, pass, from + at, at, 1, n - at);
}

/* A pass over a whole array, cut into parts. */
typedef struct sweep {
    shared *s;
    const plan_pass *pass;
    bool back; /* from the last part to the first */
} sweep;

static int64_t count_parts(const shared *s)
{
    return (s->nchunks + PART_CHUNKS - 1) / PART_CHUNKS;
}

static void run_part(void *arg, int64_t part, int worker)
{
    const sweep *w = arg;
    runner *r = plan_work_worker(w->s, worker);
    part = w->back ? count_parts(w->s) - 1 - part : part;
    int64_t to = (part + 1) * PART_CHUNKS;
    to = to < w->s->nchunks ? to : w->s->nchunks;
    for (int64_t first = part * PART_CHUNKS; first < to; first += GROUP) {
        const plan_pass *pass = w->pass;
        int64_t size = r->a->size, begin = first * PLAN_CHUNK;
        int64_t n = size - begin < GROUP_SIZE ? size - begin : GROUP_SIZE;
        if (pass->lean && r->s->lean && first * PLAN_CHUNK < plan_work_kept(r->p, size))
            pass = pass->lean;
        for (int64_t i = 0; i < n; i += PLAN_CHUNK) {
            int64_t from = begin + i, m = n - i < PLAN_CHUNK ? n - i : PLAN_CHUNK;
            plan_work_chunk(r, pass, (chunk){.from = from, .at = from, .n = m, .term = i});
        }
        sum_group(r, pass, begin, n);
    }
}

static void sweep_array(shared *s, const plan_pass *pass, bool back)
{
    sweep w = {s, pass, back};
    int64_t nparts = count_parts(s);
    begin_sums(s, pass, s->a->size);
    if (plan_is_parallel(s->a->size))
        pool_run(nparts, run_part, &w);
    else
        for (int64_t part = 0; part < nparts; part++)
            run_part(&w, part, 0);
    join_sums(s, pass);
}

/* ---- Rows that are gathered ------------------------------------------------------------------ */

/* Present rows that lie apart: their elements are gathered into blocks, on which the program of a
 * pass runs as on whole arrays, and what it changed is scattered back. A run of the program for
 * each row would cost more than its elements do when the rows are short. Which arrays a program
 * reads and writes its instructions say. */

/* The arrays of a pass that have one row for each row of the key, and room for some rows of each.
 */
typedef struct gather {
    int64_t rows;       /* that are gathered at a time; 0: the pass works on rows where they are */
    plan_arrays arrays; /* those of the key, but of the gathered rows where an array is listed */
    row_move list[PLAN_MAX_STATES + 2]; /* first those that are read */
    bool writes[PLAN_MAX_STATES + 2];
    row_move written[PLAN_MAX_STATES + 2];
    int n, nread, nwritten;
    _Alignas(64) char room[64 << 10];
} gather;

/* A run of present rows with at least as many elements is worked on where it is. */
enum { GATHER_ALONE = 512 };

/* Elements of a block, of each array, as many as of the blocks that programs work on: twice as many
 * take 1.1 to 1.2 times as long in rows of 1. */
enum { GATHER = 512 };

/* The array of the key behind a slot that is no output of its own, or NULL. */
static void **array_of(const plan_arrays *a, int slot)
{
    return slot < PLAN_NORMAL ? (void **)(uintptr_t)plan_array_of(a, slot) : NULL;
}

/* What the instructions do with the array of a slot. */
static void find_uses(const prog *p, int slot, bool *reads, bool *writes)
{
    int place = p->nregs + slot;
    *reads = *writes = false;
    for (const inst *in = p->insts; in < p->insts + p->ninsts; in++) {
        *reads |= in->a == place || in->b == place || in->c == place;
        *writes |= in->dst == place;
    }
}

/* Lists the arrays that the program reads, or those that it only writes. It has no number for the
 * slots of the pass behind the last one that it uses. */
static void list_arrays(gather *g, const runner *r, const plan_pass *pass, bool read)
{
    const prog *p = pass->program;
    for (int s = 0; s < pass->nslots && s < p->nslots; s++) {
        void **array = array_of(r->a, pass->slot[s]);
        bool reads, writes;
        find_uses(p, s, &reads, &writes);
        if (!array || reads != read)
            continue;
        g->writes[g->n] = writes;
        g->list[g->n++] = (row_move){.array = *array, .bytes = r->a->row * p->slot_bytes[s]};
    }
}

/* Prepares for a pass over present rows. */
static void gather_init(gather *g, const runner *r, const plan_pass *pass)
{
    bool can = pass->nsums == 0;
    g->n = g->nwritten = 0;
    g->rows = 0;
    g->arrays = *r->a;
    g->arrays.far = false;
    /* gathered rows can take the place of a slot's, or it does not depend on them: the input and
     * what is printed have the present rows end to end */
    for (int s = 0; s < pass->nslots; s++) {
        int kind = plan_slot_kind(pass->slot[s]);
        can &= kind == PLAN_NUMBER || (pass->slot[s] & PLAN_PRESENT && kind != PLAN_NORMAL);
    }
    if (!can)
        return;
    list_arrays(g, r, pass, true);
    g->nread = g->n;
    list_arrays(g, r, pass, false);
    /* rows that fit the room, each array at a line of its own */
    int64_t bytes = 0, most = GATHER / r->a->row;
    for (int i = 0; i < g->n; i++)
        bytes += g->list[i].bytes;
    int64_t fit = ((int64_t)sizeof g->room - g->n * MEM_ALIGN) / (bytes > 0 ? bytes : 1);
    int64_t rows = fit < most ? fit : most;
    if (rows < 2)
        return;
    g->rows = rows;
    /* the arrays that the program runs on: rooms instead of what is listed */
    char *room = g->room;
    for (int i = 0; i < g->n; i++) {
        g->list[i].room = room;
        room += mem_aligned(g->rows * g->list[i].bytes);
        if (g->writes[i])
            g->written[g->nwritten++] = g->list[i];
    }
    for (int s = 0; s < pass->nslots; s++) {
        void **array = array_of(&g->arrays, pass->slot[s]);
        for (int i = 0; array && i < g->n; i++)
            if (g->list[i].array == *array) {
                *array = g->list[i].room;
                break;
            }
    }
}

/* Runs the pass on n present rows from number k on, at most g->rows; more: as many follow them. */
static void gather_run(gather *g, runner *r, const plan_pass *pass, int64_t k, int64_t n,
                       int64_t more)
{
    const plan_arrays *a = r->a;
    const int64_t *rows = a->rows + k;
    int64_t at = k * a->row, m = n * a->row;
    const void *in = plan_work_input(r, pass, 0, at, m);
    gather_each(g->list, g->nread, rows, n, more, in, a->row * kv_dtype_bytes(a->input_dtype));
    r->a = &g->arrays;
    plan_work_chunk(r, pass, (chunk){.at = at, .n = m, .input = in});
    r->a = a;
    scatter_each(g->written, g->nwritten, rows, n, more);
}

/* ---- Present rows ---------------------------------------------------------------------------- */

/* The memory is asked that many rows ahead, for that many bytes of each row that a pass reads. */
enum { ROWS_AHEAD = 8, ROW_AHEAD_BYTES = 256 };

static void ask_for_row(const runner *r, const plan_pass *pass, int64_t row)
{
    for (int s = 0; s < pass->nslots; s++) {
        int slot = pass->slot[s];
        void *const *array = slot < PLAN_WEIGHT ? plan_array_of(r->a, slot) : NULL;
        int64_t bytes = r->a->row * plan_work_bytes_of(r, slot);
        for (int64_t i = 0; array && i < bytes && i < ROW_AHEAD_BYTES; i += 64)
            __builtin_prefetch((const char *)*array + row * bytes + i, 1);
    }
}

/* n elements of neighbouring rows, from number k on of the present ones, in pieces of a chunk and
 * of a group: where they end, its terms are added up. */
static void run_neighbours(runner *r, const plan_pass *pass, int64_t k, int64_t n)
{
    const plan_arrays *a = r->a;
    for (int64_t i = 0, m; i < n; i += m) {
        int64_t at = k * a->row + i, term = at % GROUP_SIZE;
        m = n - i < PLAN_CHUNK ? n - i : PLAN_CHUNK;
        m = m < GROUP_SIZE - term ? m : GROUP_SIZE - term;
        int64_t from = a->rows[k] * a->row + i;
        plan_work_chunk(r, pass, (chunk){.from = from, .at = at, .n = m, .term = term});
        if (term + m == GROUP_SIZE)
            sum_group(r, pass, at - term, GROUP_SIZE);
    }
}

/* The elements of the present rows from number k to `end`, laid end to end. */
static void run_present(runner *r, const plan_pass *pass, int64_t k, int64_t end)
{
    const plan_arrays *a = r->a;
    gather g;
    gather_init(&g, r, pass);
    while (k < end) {
        int64_t next = k + 1;
        while (next < end && a->rows[next] == a->rows[next - 1] + 1)
            next++;
        if ((next - k) * a->row < GATHER_ALONE && g.rows > 0) {
            int64_t some = end - k < g.rows ? end - k : g.rows;
            gather_run(&g, r, pass, k, some, end - k - some);
            k += some;
            continue;
        }
        if (k + ROWS_AHEAD < end)
            ask_for_row(r, pass, a->rows[k + ROWS_AHEAD]);
        run_neighbours(r, pass, k, (next - k) * a->row);
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
    run_present(plan_work_worker(w->s, worker), w->pass, from, end);
}

/* Threads share what has no sums: those go from left to right. */
static void sweep_present(shared *s, const plan_pass *pass)
{
    int64_t each = part_rows(s->a), n = s->a->nrows * s->a->row, left = n % GROUP_SIZE;
    if (pass->nsums == 0 && plan_is_parallel(n)) {
        pool_run((s->a->nrows + each - 1) / each, run_present_part, &(sweep){.s = s, .pass = pass});
        return;
    }
    runner *r = plan_work_worker(s, 0);
    begin_sums(s, pass, n);
    run_present(r, pass, 0, s->a->nrows);
    sum_group(r, pass, n - left, left);
    join_sums(s, pass);
}

int64_t plan_scratch_bytes(const plan *p, int64_t size, int64_t room_bytes)
{
    int64_t steps = p->grid ? plan_grid_bytes(p, plan_work_workers(p, size)) : 0;
    return plan_work_bytes(p, size, room_bytes) + steps;
}

void plan_run(const plan *p, const plan_arrays *a, void *scratch)
{
    shared *s = plan_work_make_shared(p, a, scratch);
    int workers = plan_work_workers(p, a->size);
    for (int w = 0; w < workers; w++)
        plan_work_make_worker(s, s->workers + w * s->worker_bytes);
    if (p->grid) {
        plan_grid_run(s, s->workers + workers * s->worker_bytes);
        return;
    }
    if (p->by_rows) {
        plan_rows_run(s);
        return;
    }
    void *kept = plan_work_take_kept(s);
    bool back = false;
    for (const plan_pass *pass = p->pass; pass < p->pass + p->npasses; pass++) {
        if (plan_pass_is_of_numbers(pass)) {
            plan_work_numbers(plan_work_worker(s, 0), pass, s->cell, 1);
            continue;
        }
        copy_numbers(s, pass);
        if (pass->present && a->rows)
            sweep_present(s, pass);
        else
            sweep_array(s, pass, back);
        back = !back;
    }
    mem_free_data(kept);
    /* numbers of a whole array that are printed */
    for (int i = 0; i < p->nrows; i++) {
        const plan_row *m = &p->row[i];
        size_t bytes = plan_work_number_bytes(p, m->number);
        char *at = plan_rows_cell(a, m, 0, 0, bytes);
        if (at && m->write)
            memcpy(at, &s->number[m->number], bytes);
    }
}

bool plan_splits(const plan *p, const int64_t *rows)
{
    const plan_pass *pass = &p->pass[0];
    return !p->grid && p->npasses == 1 && !p->by_rows && p->nrows == 0 && pass->nsums == 0 &&
           !(pass->present && rows);
}

void plan_run_part(const plan *p, const plan_arrays *a, int64_t from, int64_t n, void *scratch)
{
    shared *s = plan_work_make_shared(p, a, scratch);
    const plan_pass *pass = &p->pass[0];
    runner *r = plan_work_make_worker(s, s->workers);
    copy_numbers(s, pass);
    const rule_loop *whole = pass->program->whole;
    bool adds =
        a->input_terms[0] && whole && whole->adds && plan_slot_kind(pass->slot[1]) == PLAN_INPUT;
    for (int64_t i = from, end = from + n; i < end; i += PLAN_CHUNK) {
        int64_t m = end - i < PLAN_CHUNK ? end - i : PLAN_CHUNK;
        chunk c = {.from = i, .at = i, .n = m};
        if (adds) {
            c.input = a->input_terms[0] + i;
            c.more = a->input_terms[1] + i;
        }
        plan_work_chunk(r, pass, c);
    }
}
