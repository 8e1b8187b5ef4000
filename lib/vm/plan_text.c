/* Kernels, and what stands in them for the slots of programs: packs of arrays, numbers that were
 * read before, random numbers. Program 2 * i of a plan is over the numbers of pass i, the next one
 * over its elements. */
#include "vm/plan_text.h"

#include <string.h>

#include "vm/plan_pass.h"
#include "vm/prog_text.h"

/* Elements of a pack: no more, so that what a thread holds of them stays in registers. */
enum { MOST = 8, ACCESS_BYTES = 16, HELD = 64 /* elements of all packs */ };

/* Arrays that a program reads or writes. */
typedef struct use {
    kv_dtype dtype;
    bool reads, writes;
} use;

typedef struct writer {
    const plan *p;
    int program;
    plan_form form;
    buf heads; /* declarations of what is the same for all elements of a job */
    use use[PLAN_MAX_SLOTS];
} writer;

/* ---- Programs ---- */

static bool is_of_numbers(int program)
{
    return program % 2 == 0;
}

static const plan_pass *pass_of(const plan *p, int program)
{
    return &p->pass[program / 2];
}

static const prog *prog_of(const plan *p, int program)
{
    return is_of_numbers(program) ? pass_of(p, program)->numbers : pass_of(p, program)->elements;
}

/* The programs of a kernel: from the first one up to the end. */
static int first_of(const plan *p, int kernel)
{
    return p->by_rows ? 0 : kernel;
}

static int end_of(const plan *p, int kernel)
{
    return p->by_rows ? 2 * p->npasses : kernel + 1;
}

int plan_text_kernels(const plan *p)
{
    return p->by_rows ? 1 : 2 * p->npasses;
}

bool plan_text_has(const plan *p, int kernel)
{
    return p->by_rows || prog_of(p, kernel);
}

bool plan_text_possible(const plan *p, plan_input input)
{
    return !p->grid && (p->by_rows || input == PLAN_INPUT_ALL || p->nnumbers == 0);
}

plan_form plan_text_form(const plan *p, int kernel, plan_input input)
{
    if (input != PLAN_INPUT_PRESENT)
        return input == PLAN_INPUT_ALL ? PLAN_ROWS_ALL : PLAN_ROWS_SPREAD;
    if (p->by_rows)
        return p->every_row ? PLAN_ROWS_SOME : PLAN_ROWS_PRESENT;
    return pass_of(p, kernel)->present ? PLAN_ROWS_PRESENT : PLAN_ROWS_SPREAD;
}

/* ---- Slots ---- */

/* What slot i of a program is: one of plan.h. */
static int slot_of(const plan *p, int program, int i)
{
    return is_of_numbers(program) ? PLAN_NUMBER + i : pass_of(p, program)->slot[i];
}

/* By rows all passes have the same arrays: stored, weight and the states. */
int plan_text_slots(const plan *p, int kernel, int *slots)
{
    const plan_pass *pass = pass_of(p, kernel);
    int n = p->by_rows ? 2 + PLAN_MAX_STATES : is_of_numbers(kernel) ? 0 : pass->nslots;
    for (int s = 0; s < n; s++)
        slots[s] = !p->by_rows ? pass->slot[s] : s < 2 ? s * PLAN_WEIGHT : PLAN_STATE + s - 2;
    return n;
}

/* By rows, the place of an array among those. */
static int row_array(int slot)
{
    int kind = plan_slot_kind(slot);
    return kind == PLAN_STORED ? 0 : kind == PLAN_WEIGHT ? 1 : 2 + plan_slot_index(slot);
}

static void read_slot(void *arg, buf *out, int slot, kv_dtype dtype)
{
    writer *w = arg;
    const char *item = prog_text_item(dtype);
    bool by_rows = w->p->by_rows;
    int of = slot_of(w->p, w->program, slot);
    int kind = plan_slot_kind(of), index = plan_slot_index(of);
    if (kind == PLAN_NUMBER) {
        if (!by_rows)
            buf_printf(&w->heads, "    const %s n%d = *(const %s *)(c + %d);\n", item, index, item,
                       index);
        buf_printf(out, "n%d", index);
    } else if (kind == PLAN_NORMAL) {
        buf_printf(out, "kv_normal_%s(seed, draw + %d, (kv_u64)%s)", item, index,
                   by_rows                    ? "e"
                   : w->form == PLAN_ROWS_ALL ? "(i + e)"
                                              : "(to + e)");
    } else if (!by_rows) {
        w->use[slot].dtype = dtype;
        w->use[slot].reads = true;
        buf_printf(out, "x%d.v[e]", slot);
    } else if (kind == PLAN_INPUT) {
        buf_printf(out, "in < 0 ? (%s)0 : ((const %s *)j->src[0])[in]", item, item);
    } else {
        buf_printf(out, "((const %s *)j->more[%d])[e]", item, row_array(of));
    }
}

static void write_slot(void *arg, buf *out, int slot, kv_dtype dtype, int v)
{
    writer *w = arg;
    const char *item = prog_text_item(dtype);
    bool by_rows = w->p->by_rows;
    int of = slot_of(w->p, w->program, slot);
    int kind = plan_slot_kind(of), index = plan_slot_index(of);
    if (kind == PLAN_NUMBER && !by_rows) {
        buf_printf(out, "            *(%s *)(c + %d) = v%d;\n", item, index, v);
    } else if (!by_rows) {
        w->use[slot].dtype = dtype;
        w->use[slot].writes = true;
        buf_printf(out, "            x%d.v[e] = v%d;\n", slot, v);
    } else if (kind == PLAN_NUMBER) {
        buf_printf(out, "            n%d = v%d;\n", index, v);
    } else if (kind == PLAN_TERMS) {
        buf_printf(out, "            b%d += v%d;\n", index, v);
    } else {
        buf_printf(out, "            ((%s *)j->more[%d])[e] = v%d;\n", item, row_array(of), v);
    }
}

static void write_statements(writer *w, buf *out)
{
    const prog_text_slots slots = {w, read_slot, write_slot};
    prog_text(out, prog_of(w->p, w->program), &slots);
}

/* ---- Words ---- */

/* The first word of a program; for the number behind the last program, the first word of draws. */
static int64_t first_word(const plan *p, int kernel, int program)
{
    int64_t n = 0;
    for (int before = first_of(p, kernel); before < program; before++)
        if (prog_of(p, before))
            n += prog_text_words(prog_of(p, before));
    return n;
}

static bool has_draws(const plan *p, int kernel)
{
    bool any = false;
    for (int i = first_of(p, kernel); i < end_of(p, kernel); i++)
        for (int s = 0; !is_of_numbers(i) && s < pass_of(p, i)->nslots; s++)
            any |= plan_slot_kind(slot_of(p, i, s)) == PLAN_NORMAL;
    return any;
}

int64_t plan_text_words(const plan *p, int kernel)
{
    return first_word(p, kernel, end_of(p, kernel)) + (has_draws(p, kernel) ? 2 : 0);
}

void plan_text_fill(double *words, const plan *p, int kernel, const plan_arrays *a)
{
    uint64_t draws[2] = {a->seed, (uint64_t)a->t * PLAN_MAX_DRAWS};
    for (int i = first_of(p, kernel); i < end_of(p, kernel); i++)
        if (prog_of(p, i))
            prog_text_fill(words + first_word(p, kernel, i), prog_of(p, i),
                           plan_pool_of(a, prog_of(p, i)));
    if (has_draws(p, kernel))
        memcpy(words + first_word(p, kernel, end_of(p, kernel)), draws, sizeof draws);
}

bool plan_text_is_shared(const plan *p, int kernel)
{
    return !has_draws(p, kernel);
}

static void write_draws(buf *out, const plan *p, int kernel, const char *words)
{
    long long word = (long long)first_word(p, kernel, end_of(p, kernel));
    if (!has_draws(p, kernel))
        return;
    buf_printf(out, "    const kv_u64 seed = (kv_u64)kv_integer(%s[%lld]);\n", words, word);
    buf_printf(out, "    const kv_u64 draw = (kv_u64)kv_integer(%s[%lld]);\n", words, word + 1);
}

/* ---- A thread for a pack of elements ---- */

/* As many elements as 16 bytes hold of the widest array, fewer of many arrays. What draws computes
 * for longer than it waits for memory, and rows begin anywhere. */
static int pack_of(const writer *w)
{
    int n = MOST, arrays = 0;
    for (int s = 0; s < PLAN_MAX_SLOTS; s++) {
        bool used = w->use[s].reads || w->use[s].writes;
        arrays += used;
        while (used && n * kv_dtype_bytes(w->use[s].dtype) > ACCESS_BYTES)
            n /= 2;
    }
    while (n > 1 && n * arrays > HELD)
        n /= 2;
    bool single = is_of_numbers(w->program) || has_draws(w->p, w->program);
    return single || w->form != PLAN_ROWS_ALL ? 1 : n;
}

/* The next slot from s on whose array is read or written, or that behind the last one. */
static int next_array(const writer *w, int s)
{
    while (s < PLAN_MAX_SLOTS && !w->use[s].reads && !w->use[s].writes)
        s++;
    return s;
}

static bool is_input(const writer *w, int slot)
{
    return plan_slot_kind(slot_of(w->p, w->program, slot)) == PLAN_INPUT;
}

static void declare_arrays(const writer *w, buf *out)
{
    int n = PLAN_MAX_SLOTS;
    for (int s = next_array(w, 0); s < n; s = next_array(w, s + 1)) {
        const char *item = prog_text_item(w->use[s].dtype);
        if (is_input(w, s))
            buf_printf(out, "    const kv_values<%s> a%d = {j};\n",
                       prog_text_tag(w->use[s].dtype), s);
        else
            buf_printf(out, "    %s *const a%d = kv_more<%s>(j, %d);\n", item, s, item, s);
    }
    buf_add(out, "    const bool packs = true");
    for (int s = next_array(w, 0); s < n; s = next_array(w, s + 1))
        buf_printf(out, is_input(w, s) ? " && a%d.fit<N>()" : " && kv_fits<N>(a%d)", s);
    buf_add(out, ";\n");
}

static void load_packs(const writer *w, buf *out, const char *whole)
{
    bool all = w->form == PLAN_ROWS_ALL;
    for (int s = 0; s < PLAN_MAX_SLOTS; s++) {
        if (!w->use[s].reads)
            continue;
        buf_printf(out, "            x%d = ", s);
        if (!is_input(w, s)) {
            buf_printf(out, "kv_load<N, %s>(a%d, %s, n);\n", whole, s, all ? "i" : "to");
            continue;
        }
        if (w->form == PLAN_ROWS_SPREAD)
            buf_printf(out, "in < 0 ? kv_pack<%s, N>() : ", prog_text_item(w->use[s].dtype));
        buf_printf(out, "a%d.load<N, %s>(%s, n);\n", s, whole, all ? "i" : "in");
    }
}

static void store_packs(const writer *w, buf *out, const char *whole)
{
    const char *at = w->form == PLAN_ROWS_ALL ? "i" : "to";
    for (int s = 0; s < PLAN_MAX_SLOTS; s++)
        if (w->use[s].writes)
            buf_printf(out, "            kv_store<N, %s>(a%d, %s, n, x%d);\n", whole, s, at, s);
}

/* Writes the loads or stores of all arrays, once for whole packs and once for parts: the accesses
 * of a pack then follow each other, and the device does not wait between them. */
static void write_both(const writer *w, buf *out,
                       void (*write)(const writer *w, buf *out, const char *whole))
{
    if (is_of_numbers(w->program))
        return;
    buf_add(out, "        if (whole) {\n");
    write(w, out, "true");
    buf_add(out, "        } else {\n");
    write(w, out, "false");
    buf_add(out, "        }\n");
}

static void write_packs(writer *w, buf *out, const char *name)
{
    buf statements = {0};
    write_statements(w, &statements);
    buf_printf(out, "/* What a rule does with %s. */\nstruct %s_work {\n",
               is_of_numbers(w->program) ? "numbers" : "elements", name);
    /* members that are the same for all elements of a job */
    bool numbers = is_of_numbers(w->program);
    buf_printf(out, "    enum { N = %d };\n", pack_of(w));
    buf_add(out, "    const job_item *j;\n    const double *k = kv_global(j->numbers);\n");
    if (w->heads.len > 0 || numbers)
        buf_printf(out, "    kv_u64 *const c = kv_more<kv_u64>(j, %d);\n",
                   numbers ? 0 : pass_of(w->p, w->program)->nslots);
    prog_text_constants(out, prog_of(w->p, w->program));
    write_draws(out, w->p, w->program, "k");
    buf_add(out, buf_text(&w->heads));
    declare_arrays(w, out);
    buf_add(out, "    __device__ __forceinline__ void at(kv_i64 i, int n) const\n    {\n");
    /* the place of element i in the arrays, `to`, and in the input, `in`, or -1 */
    if (w->form == PLAN_ROWS_PRESENT)
        buf_add(out, "        const kv_i64 to = j->index[i / j->row] * j->row + i % j->row;\n"
                     "        const kv_i64 in = i;\n        (void)in;\n");
    else if (w->form == PLAN_ROWS_SPREAD)
        buf_add(out, "        const kv_i64 to = i, place = j->index[i / j->row];\n"
                     "        const kv_i64 in = place < 0 ? -1 : place * j->row + i % j->row;\n"
                     "        (void)in;\n");
    buf_add(out, "        const bool whole = packs && n == N;\n");
    for (int s = next_array(w, 0); s < PLAN_MAX_SLOTS; s = next_array(w, s + 1))
        buf_printf(out, "        kv_pack<%s, N> x%d;\n", prog_text_item(w->use[s].dtype), s);
    write_both(w, out, load_packs);
    buf_add(out, "#pragma unroll\n        for (int e = 0; e < N; e++) {\n");
    buf_add(out, buf_text(&statements));
    buf_add(out, "        }\n");
    write_both(w, out, store_packs);
    buf_printf(out, "    }\n};\nextern \"C\" __global__ void %s(job_list l)\n{\n", name);
    buf_printf(out, "    kv_each_pack<%s_work>(l);\n}\nKV_KERNEL(%s)\n", name, name);
    out->failed |= w->heads.failed || statements.failed;
    buf_release(&w->heads);
    buf_release(&statements);
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

/* The numbers that states hold for the row: they are read before all passes, and those of present
 * rows, or of absent ones, are written behind them. */
static void write_states(buf *out, const plan *p, bool write)
{
    for (int i = 0; i < p->nrows; i++) {
        const plan_row *m = &p->row[i];
        bool begins = m->slot >= PLAN_ROW_BEGIN;
        int state = row_array(m->slot);
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

static void write_constants(const writer *w, buf *out)
{
    buf_printf(out, "    const double *k = j->numbers + %lld;\n    (void)k;\n",
               (long long)first_word(w->p, 0, w->program));
    prog_text_constants(out, prog_of(w->p, w->program));
}

/* A block of PLAN_CHUNK terms begins at 0, and so does what blocks are added to. */
static void write_columns(writer *w, buf *out)
{
    const plan *p = w->p;
    const plan_pass *pass = pass_of(p, w->program);
    buf_printf(out, "    if (%s) {\n", pass->present ? "present" : "true");
    write_constants(w, out);
    for (int s = 0; s < pass->nsums; s++)
        buf_printf(out, "    %s s%d = 0;\n", sum_item(p, pass->sum[s].number), s);
    buf_printf(out,
               "    for (kv_i64 from = 0; from < j->row; from += %d) {\n"
               "        const kv_i64 to = j->row - from < %d ? j->row : from + %d;\n",
               PLAN_CHUNK, PLAN_CHUNK, PLAN_CHUNK);
    for (int s = 0; s < pass->nsums; s++)
        buf_printf(out, "        %s b%d = 0;\n", sum_item(p, pass->sum[s].number), s);
    buf_add(out, "        for (kv_i64 column = from; column < to; column++) {\n"
                 "            const kv_i64 e = row * j->row + column;\n"
                 "            const kv_i64 in = place < 0 ? -1 : place * j->row + column;\n"
                 "            (void)e, (void)in;\n");
    write_statements(w, out);
    buf_add(out, "        }\n");
    for (int s = 0; s < pass->nsums; s++)
        buf_printf(out, "        s%d += b%d;\n", s, s);
    buf_add(out, "    }\n");
    for (int s = 0; s < pass->nsums; s++)
        buf_printf(out, "    n%d = s%d;\n", pass->sum[s].number, s);
    buf_add(out, "    }\n");
}

static void write_rows(writer *w, buf *out, const char *name)
{
    static const char *const places[] = {
        [PLAN_ROWS_ALL] = "row = r, place = r",
        [PLAN_ROWS_SPREAD] = "row = r, place = j->index[r]",
        [PLAN_ROWS_PRESENT] = "row = j->index[r], place = r",
        [PLAN_ROWS_SOME] = "row = r, place = j->index[r]",
    };
    const plan *p = w->p;
    buf_printf(out,
               "/* What a rule does with rows. */\n"
               "extern \"C\" __global__ void %s(job_list l)\n{\n    KV_EACH_TILE(l, j, at, m) {\n",
               name);
    write_draws(out, p, 0, "j->numbers");
    buf_printf(out,
               "    for (kv_i64 r = at / %d + kv_lane(); r < (at + m) / %d; r += JOB_TEAM) {\n"
               "    const kv_i64 %s;\n    const bool present = %s;\n    (void)present;\n",
               PLAN_ROW_ELEMENTS, PLAN_ROW_ELEMENTS, places[w->form],
               w->form == PLAN_ROWS_SOME ? "place >= 0" : "true");
    for (int i = 0; i < p->nnumbers; i++)
        buf_printf(out, "    %s n%d = 0;\n    (void)n%d;\n", number_item(p, i), i, i);
    write_states(out, p, false);
    for (w->program = 0; w->program < 2 * p->npasses; w->program++) {
        if (!prog_of(p, w->program))
            continue;
        if (!is_of_numbers(w->program)) {
            write_columns(w, out);
            continue;
        }
        buf_add(out, "    {\n");
        write_constants(w, out);
        write_statements(w, out);
        buf_add(out, "    }\n");
    }
    write_states(out, p, true);
    buf_printf(out, "    }\n    }\n}\nKV_KERNEL(%s)\n", name);
}

void plan_text(buf *out, const plan *p, int kernel, plan_input input, const char *name)
{
    writer w = {.p = p, .program = kernel, .form = plan_text_form(p, kernel, input)};
    if (p->by_rows)
        write_rows(&w, out, name);
    else
        write_packs(&w, out, name);
}
