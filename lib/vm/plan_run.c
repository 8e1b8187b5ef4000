/* Plans, second half: running passes over the arrays of a key.
 *
 * A pass goes through its elements chunk by chunk. What it goes through is an extent: the whole
 * array, one row, or the present rows laid end to end. In the last, a chunk is cut at the ends of
 * runs of neighbouring rows, since stored and states have gaps there while the input has none.
 */
#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "base/philox.h"
#include "vm/plan_pass.h"

/* A sum in the making: blocks of PLAN_CHUNK elements, whatever the pieces it comes in. */
typedef struct total {
    double block, sum; /* hold numbers of the sum's type */
    int64_t n;         /* elements of the block so far */
} total;

/* What a run works with; lies in the scratch memory, with what it points at behind it. */
typedef struct runner {
    const plan *p;
    const plan_arrays *a;
    uint64_t number[2 * PLAN_MAX_NUMBERS]; /* each in its own type, at the cell's start */
    void *cell[2 * PLAN_MAX_NUMBERS];      /* the cells, as arrays for the programs over numbers */
    total totals[PLAN_MAX_NUMBERS];
    char *copies;  /* a block of copies of each number */
    char *terms;   /* a chunk of terms of each sum */
    char *normals; /* a chunk for each draw */
    char *input;   /* a chunk of the input */
    void *scratch; /* of the programs */
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

int64_t plan_scratch_bytes(const plan *p)
{
    return aligned(sizeof(runner)) + aligned((int64_t)p->nnumbers * PROG_REG_BYTES) +
           (int64_t)(most_sums(p) + count_draws(p) + 1) * CHUNK_BYTES + program_bytes(p);
}

static runner *make_runner(const plan *p, const plan_arrays *a, void *scratch)
{
    runner *r = scratch;
    r->p = p;
    r->a = a;
    memset(r->number, 0, sizeof r->number);
    for (int i = 0; i < 2 * PLAN_MAX_NUMBERS; i++)
        r->cell[i] = &r->number[i];
    r->copies = (char *)scratch + aligned(sizeof *r);
    r->terms = r->copies + aligned((int64_t)p->nnumbers * PROG_REG_BYTES);
    r->normals = r->terms + (int64_t)most_sums(p) * CHUNK_BYTES;
    r->input = r->normals + (int64_t)count_draws(p) * CHUNK_BYTES;
    r->scratch = r->input + CHUNK_BYTES;
    return r;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void put_number(runner *r, int i, double x)
{
    float f = (float)x;
    if (r->p->number_type[i] == PROG_F32)
        memcpy(&r->number[i], &f, sizeof f);
    else
        memcpy(&r->number[i], &x, sizeof x);
}

/* Blocks of copies of the numbers that a pass reads. */
static void copy_numbers(runner *r, const plan_pass *pass)
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

/* Row states that the row reads, or that it changed. */
static void move_rows(runner *r, int64_t row, bool write)
{
    for (int i = 0; i < r->p->nrows; i++) {
        const plan_row *m = &r->p->row[i];
        size_t bytes = r->p->number_type[m->number] == PROG_F32 ? 4 : 8;
        char *at = (char *)r->a->states[m->state] + (size_t)row * bytes;
        if (m->write && write)
            memcpy(at, &r->number[m->number], bytes);
        else if (!m->write && !write)
            memcpy(&r->number[m->number], at, bytes);
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
        const char *x = r->terms + (int64_t)s * CHUNK_BYTES;
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

static void end_sums(runner *r, const plan_pass *pass)
{
    for (int s = 0; s < pass->nsums; s++) {
        total *t = &r->totals[s];
        if (t->n > 0)
            end_block(t, r->p->number_type[pass->sum[s]] == PROG_F32);
        put_number(r, pass->sum[s], t->sum);
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

/* Where slot begins for the elements from … (of the whole array) of a chunk. input: its part of the
 * input. */
static void *slot_at(runner *r, int slot, int64_t from, int64_t n, const void *input)
{
    const plan_arrays *a = r->a;
    int64_t bytes = r->p->type == PROG_F64 || r->p->type == PROG_I64 ? 8 : 4;
    if (slot >= PLAN_PRIVATE + PLAN_MAX_NUMBERS)
        return r->terms + (int64_t)(slot - PLAN_PRIVATE - PLAN_MAX_NUMBERS) * CHUNK_BYTES;
    if (slot >= PLAN_PRIVATE)
        return r->copies + (int64_t)(slot - PLAN_PRIVATE) * PROG_REG_BYTES;
    slot %= PLAN_PRESENT;
    if (slot == PLAN_STORED)
        return (char *)a->stored + from * kv_dtype_bytes(a->stored_dtype);
    if (slot == PLAN_INPUT)
        return (void *)(uintptr_t)input; /* only read */
    if (slot == PLAN_WEIGHT)
        return (char *)a->weight + from * kv_dtype_bytes(a->weight_dtype);
    if (slot >= PLAN_NORMAL)
        return draw(r, slot - PLAN_NORMAL, from, n);
    return (char *)a->states[slot - PLAN_STATE] + from * bytes;
}

static bool reads_input(const plan_pass *pass)
{
    for (int s = 0; s < pass->nslots; s++)
        if (pass->slot[s] == PLAN_INPUT || pass->slot[s] == PLAN_INPUT + PLAN_PRESENT)
            return true;
    return false;
}

static void run_chunk(runner *r, const plan_pass *pass, int64_t from, int64_t n, const void *input)
{
    void *arrays[PLAN_MAX_SLOTS];
    for (int s = 0; s < pass->nslots; s++)
        arrays[s] = slot_at(r, pass->slot[s], from, n, input);
    prog_run(pass->elements, arrays, n, r->scratch);
    add_terms(r, pass, n);
}

/* The elements from … to of the whole array. */
static void run_elements(runner *r, const plan_pass *pass, int64_t from, int64_t to)
{
    bool input = reads_input(pass);
    for (int64_t i = from; i < to; i += PLAN_CHUNK) {
        int64_t n = to - i < PLAN_CHUNK ? to - i : PLAN_CHUNK;
        run_chunk(r, pass, i, n, input ? r->a->input(r->a->arg, i, n, r->input) : NULL);
    }
}

/* The elements of the present rows first … last, laid end to end. */
static void run_present(runner *r, const plan_pass *pass, int64_t first, int64_t last)
{
    const plan_arrays *a = r->a;
    bool input = reads_input(pass);
    for (int64_t k = first; k < last;) {
        int64_t next = k + 1;
        while (next < last && a->rows[next] == a->rows[next - 1] + 1)
            next++;
        int64_t n = (next - k) * a->row;
        for (int64_t i = 0; i < n; i += PLAN_CHUNK) {
            int64_t m = n - i < PLAN_CHUNK ? n - i : PLAN_CHUNK;
            const void *in = input ? a->input_rows(a->arg, k * a->row + i, m, r->input) : NULL;
            run_chunk(r, pass, a->rows[k] * a->row + i, m, in);
        }
        k = next;
    }
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static void run_pass(runner *r, const plan_pass *pass, int64_t row)
{
    const plan_arrays *a = r->a;
    bool present = pass->present && a->rows;
    if (pass->numbers)
        prog_run(pass->numbers, r->cell, 1, r->scratch);
    if (!pass->elements)
        return;
    copy_numbers(r, pass);
    memset(r->totals, 0, (size_t)pass->nsums * sizeof *r->totals);
    if (present && row >= 0)
        run_present(r, pass, row, row + 1);
    else if (present)
        run_present(r, pass, 0, a->nrows);
    else if (row >= 0)
        run_elements(r, pass, row * a->row, (row + 1) * a->row);
    else
        run_elements(r, pass, 0, a->size);
    end_sums(r, pass);
}

/* Row by row: all passes of one, then the next. */
static void run_rows(runner *r)
{
    const plan_arrays *a = r->a;
    int64_t n = a->rows ? a->nrows : a->size / a->row;
    for (int64_t k = 0; k < n; k++) {
        int64_t row = a->rows ? a->rows[k] : k;
        move_rows(r, row, false);
        for (int i = 0; i < r->p->npasses; i++)
            run_pass(r, &r->p->pass[i], k);
        move_rows(r, row, true);
    }
}

void plan_run(const plan *p, const plan_arrays *a, void *scratch)
{
    runner *r = make_runner(p, a, scratch);
    if (p->by_rows) {
        run_rows(r);
        return;
    }
    for (int i = 0; i < p->npasses; i++)
        run_pass(r, &p->pass[i], -1);
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
