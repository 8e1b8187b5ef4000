/* What stands for the slots of a program that rows of a key go through, and the loops around it. */
#include "vm/plan_text_rows.h"

#include <string.h>

#include "vm/plan_pass.h"
#include "vm/prog_text.h"

/* What a program is written for. */
typedef struct writer {
    const plan *p;
    const plan_pass *pass;
    bool numbers; /* the pass's program over numbers: slot i is number i */
} writer;

static int slot_of(int slot)
{
    return slot < PLAN_ROW_STATE ? slot % PLAN_PRESENT : slot;
}

static bool is_draw(int slot)
{
    return slot_of(slot) >= PLAN_NORMAL && slot_of(slot) < PLAN_NORMAL + PLAN_MAX_DRAWS;
}

static bool prints(const plan *p)
{
    bool any = false;
    for (int i = 0; i < p->nrows; i++)
        any |= p->row[i].slot >= PLAN_ROW_PRINT;
    for (int i = 0; i < p->npasses; i++)
        for (int s = 0; s < p->pass[i].nslots; s++) {
            int slot = slot_of(p->pass[i].slot[s]);
            any |= slot >= PLAN_PRINT && slot < PLAN_ROW_STATE;
        }
    return any;
}

bool plan_text_rows_possible(const plan *p)
{
    return (p->by_rows || p->nnumbers == 0) && !prints(p);
}

bool plan_text_rows_is_by_row(const plan *p)
{
    return p->by_rows;
}

int plan_text_rows_kernels(const plan *p)
{
    return p->by_rows ? 1 : p->npasses;
}

bool plan_text_rows_has(const plan *p, int kernel)
{
    return p->by_rows || p->pass[kernel].elements;
}

plan_form plan_text_rows_form(const plan *p, int kernel, bool rows, bool spread)
{
    if (!rows)
        return spread ? PLAN_ROWS_SPREAD : PLAN_ROWS_ALL;
    if (p->by_rows)
        return p->every_row ? PLAN_ROWS_SOME : PLAN_ROWS_PRESENT;
    return p->pass[kernel].present ? PLAN_ROWS_PRESENT : PLAN_ROWS_SPREAD;
}

/* ---- Words ---- */

/* The program number i of a kernel, in the order in which they run, or NULL. */
static const prog *prog_of(const plan *p, int kernel, int i)
{
    const plan_pass *pass = &p->pass[p->by_rows ? i / 2 : kernel];
    return p->by_rows && i % 2 == 0 ? pass->numbers : pass->elements;
}

static int count_progs(const plan *p)
{
    return p->by_rows ? 2 * p->npasses : 1;
}

/* Where the words of program i begin; of the one behind the last, the two of the draws. */
static int64_t first_word(const plan *p, int kernel, int i)
{
    int64_t n = 0;
    for (int before = 0; before < i; before++)
        if (prog_of(p, kernel, before))
            n += prog_text_words(prog_of(p, kernel, before));
    return n;
}

int64_t plan_text_rows_words(const plan *p, int kernel)
{
    return first_word(p, kernel, count_progs(p)) + 2;
}

void plan_text_rows_fill(double *words, const plan *p, int kernel, uint64_t seed, int64_t t)
{
    uint64_t draws[2] = {seed, (uint64_t)t * PLAN_MAX_DRAWS};
    for (int i = 0; i < count_progs(p); i++)
        if (prog_of(p, kernel, i))
            prog_text_fill(words + first_word(p, kernel, i), prog_of(p, kernel, i));
    memcpy(words + first_word(p, kernel, count_progs(p)), draws, sizeof draws);
}

static bool draws_in(const plan_pass *pass)
{
    bool any = false;
    for (int s = 0; s < pass->nslots; s++)
        any |= is_draw(pass->slot[s]);
    return any;
}

bool plan_text_rows_is_shared(const plan *p, int kernel)
{
    bool draws = false;
    for (int i = 0; i < p->npasses; i++)
        draws |= (p->by_rows || i == kernel) && draws_in(&p->pass[i]);
    return !draws;
}

/* ---- Slots ---- */

static int place_of(int slot)
{
    slot = slot_of(slot);
    return slot == PLAN_STORED   ? PLAN_AT_STORED
           : slot == PLAN_WEIGHT ? PLAN_AT_WEIGHT
                                 : PLAN_AT_STATE + slot - PLAN_STATE;
}

static void read_slot(void *arg, buf *out, int index, kv_dtype dtype)
{
    const writer *w = arg;
    const char *item = prog_text_item(dtype);
    int slot = w->numbers ? PLAN_PRIVATE + index : w->pass->slot[index];
    if (slot >= PLAN_PRIVATE)
        buf_printf(out, "n%d", slot - PLAN_PRIVATE);
    else if (is_draw(slot))
        buf_printf(out, "(%s)kv_normal(seed, draw + %d, (kv_u64)e)", item,
                   slot_of(slot) - PLAN_NORMAL);
    else if (slot_of(slot) == PLAN_INPUT)
        buf_printf(out, "in < 0 ? (%s)0 : ((const %s *)j->src[0])[in]", item, item);
    else
        buf_printf(out, "((const %s *)j->more[%d])[e]", item, place_of(slot));
}

static void write_slot(void *arg, buf *out, int index, kv_dtype dtype, int v)
{
    const writer *w = arg;
    int slot = w->numbers ? PLAN_PRIVATE + index : w->pass->slot[index];
    if (slot >= PLAN_PRIVATE + PLAN_MAX_NUMBERS && !w->numbers)
        buf_printf(out, "            b%d += v%d;\n", slot - PLAN_PRIVATE - PLAN_MAX_NUMBERS, v);
    else if (slot >= PLAN_PRIVATE)
        buf_printf(out, "            n%d = v%d;\n", slot - PLAN_PRIVATE, v);
    else
        buf_printf(out, "            ((%s *)j->more[%d])[e] = v%d;\n", prog_text_item(dtype),
                   place_of(slot), v);
}

/* ---- Text ---- */

static void begin_kernel(buf *out, const plan *p, int kernel, const char *name)
{
    long long draws = first_word(p, kernel, count_progs(p));
    buf_printf(out,
               "extern \"C\" __global__ void %s(job_list l)\n{\n    KV_EACH_TILE(l, j, at, m) {\n",
               name);
    if (!plan_text_rows_is_shared(p, kernel))
        buf_printf(out,
                   "    const kv_u64 seed = (kv_u64)kv_integer(j->numbers[%lld]);\n"
                   "    const kv_u64 draw = (kv_u64)kv_integer(j->numbers[%lld]);\n",
                   draws, draws + 1);
}

static void end_kernel(buf *out, const char *name)
{
    buf_printf(out, "    }\n}\nKV_KERNEL(%s)\n", name);
}

static void write_constants(buf *out, const prog *p, int64_t first)
{
    buf_printf(out, "    const double *k = j->numbers + %lld;\n    (void)k;\n", (long long)first);
    prog_text_constants(out, p);
}

static void write_statements(buf *out, const plan *p, const plan_pass *pass, bool numbers)
{
    writer w = {p, pass, numbers};
    prog_text_slots slots = {&w, read_slot, write_slot};
    prog_text(out, numbers ? pass->numbers : pass->elements, &slots);
}

/* ---- A thread for each element ---- */

static void write_pass(buf *out, const plan *p, int kernel, plan_form form)
{
    static const char *const places[] = {
        [PLAN_ROWS_ALL] = "e = i, in = i",
        [PLAN_ROWS_SPREAD] = "e = i, in = j->index[row] < 0 ? -1 : j->index[row] * j->row + column",
        [PLAN_ROWS_PRESENT] = "e = j->index[row] * j->row + column, in = i",
        [PLAN_ROWS_SOME] = "",
    };
    write_constants(out, p->pass[kernel].elements, 0);
    buf_printf(out,
               "    for (kv_i64 i = at + kv_lane(); i < at + m; i += JOB_TEAM) {\n"
               "        const kv_i64 row = i / j->row, column = i %% j->row;\n"
               "        const kv_i64 %s;\n        (void)row, (void)column, (void)e, (void)in;\n",
               places[form]);
    write_statements(out, p, &p->pass[kernel], false);
    buf_add(out, "    }\n");
}

/* ---- A thread for each row ---- */

static const char *number_item(const plan *p, int i)
{
    return prog_text_item(prog_dtype((prog_type)p->number_type[i]));
}

/* The type that the sum of such numbers is made in. */
static const char *sum_item(const plan *p, int i)
{
    return p->number_type[i] == PROG_F32 ? "float" : "double";
}

static void begin_row(buf *out, const plan *p, plan_form form)
{
    static const char *const places[] = {
        [PLAN_ROWS_ALL] = "row = r, place = r",
        [PLAN_ROWS_SPREAD] = "row = r, place = j->index[r]",
        [PLAN_ROWS_PRESENT] = "row = j->index[r], place = r",
        [PLAN_ROWS_SOME] = "row = r, place = j->index[r]",
    };
    buf_printf(out,
               "    for (kv_i64 r = at / %d + kv_lane(); r < (at + m) / %d; r += JOB_TEAM) {\n"
               "    const kv_i64 %s;\n    const bool present = %s;\n    (void)present;\n",
               PLAN_ROW_ELEMENTS, PLAN_ROW_ELEMENTS, places[form],
               form == PLAN_ROWS_SOME ? "place >= 0" : "true");
    for (int i = 0; i < p->nnumbers; i++)
        buf_printf(out, "    %s n%d = 0;\n    (void)n%d;\n", number_item(p, i), i, i);
}

/* The numbers that states hold for the row: they are read before all passes, and those of present
 * rows, or of absent ones, are written behind them. */
static void write_states(buf *out, const plan *p, bool write)
{
    for (int i = 0; i < p->nrows; i++) {
        const plan_row *m = &p->row[i];
        bool begins = m->slot >= PLAN_ROW_BEGIN;
        int state = PLAN_AT_STATE + m->slot - (begins ? PLAN_ROW_BEGIN : PLAN_ROW_STATE);
        const char *item = number_item(p, m->number);
        if (m->write != write)
            continue;
        if (write)
            buf_printf(out, "    if (%spresent)\n        ((%s *)j->more[%d])[row] = n%d;\n",
                       begins ? "!" : "", item, state, m->number);
        else
            buf_printf(out, "    n%d = ((const %s *)j->more[%d])[row];\n", m->number, item, state);
    }
}

static void write_numbers(buf *out, const plan *p, int pass)
{
    buf_add(out, "    {\n");
    write_constants(out, p->pass[pass].numbers, first_word(p, 0, 2 * pass));
    write_statements(out, p, &p->pass[pass], true);
    buf_add(out, "    }\n");
}

/* A block of PLAN_CHUNK terms begins at 0, and so does what blocks are added to. */
static void write_row(buf *out, const plan *p, int number)
{
    const plan_pass *pass = &p->pass[number];
    buf_printf(out, "    if (%s) {\n", pass->present ? "present" : "true");
    write_constants(out, pass->elements, first_word(p, 0, 2 * number + 1));
    for (int s = 0; s < pass->nsums; s++)
        buf_printf(out, "    %s s%d = 0;\n", sum_item(p, pass->sum[s]), s);
    buf_printf(out,
               "    for (kv_i64 from = 0; from < j->row; from += %d) {\n"
               "        const kv_i64 to = j->row - from < %d ? j->row : from + %d;\n",
               PLAN_CHUNK, PLAN_CHUNK, PLAN_CHUNK);
    for (int s = 0; s < pass->nsums; s++)
        buf_printf(out, "        %s b%d = 0;\n", sum_item(p, pass->sum[s]), s);
    buf_add(out, "        for (kv_i64 column = from; column < to; column++) {\n"
                 "            const kv_i64 e = row * j->row + column;\n"
                 "            const kv_i64 in = place < 0 ? -1 : place * j->row + column;\n"
                 "            (void)e, (void)in;\n");
    write_statements(out, p, pass, false);
    buf_add(out, "        }\n");
    for (int s = 0; s < pass->nsums; s++)
        buf_printf(out, "        s%d += b%d;\n", s, s);
    buf_add(out, "    }\n");
    for (int s = 0; s < pass->nsums; s++)
        buf_printf(out, "    n%d = s%d;\n", pass->sum[s], s);
    buf_add(out, "    }\n");
}

static void write_rows(buf *out, const plan *p, plan_form form)
{
    begin_row(out, p, form);
    write_states(out, p, false);
    for (int i = 0; i < p->npasses; i++) {
        if (p->pass[i].numbers)
            write_numbers(out, p, i);
        if (p->pass[i].elements)
            write_row(out, p, i);
    }
    write_states(out, p, true);
    buf_add(out, "    }\n");
}

void plan_text_rows(buf *out, const plan *p, int kernel, plan_form form, const char *name)
{
    begin_kernel(out, p, kernel, name);
    if (p->by_rows)
        write_rows(out, p, form);
    else
        write_pass(out, p, kernel, form);
    end_kernel(out, name);
}
