/* Plans on GPUs: the texts of their kernels, then jobs, which meet in a list whose stages are the
 * passes where they are of one kernel.
 *
 * In a text packs of arrays, numbers that were read before and random numbers stand for the slots
 * of programs. */
#include "vm/plan_gpu.h"

#include <string.h>

#include "base/kv_assert.h"
#include "vm/plan_pass.h"
#include "vm/prog_text.h"

/* Elements of a pack: no more, so that what a thread holds of them stays in registers. */
enum { MOST = 8, ACCESS_BYTES = 16, HELD = 64 /* elements of all packs */ };

/* Which rows a kernel goes through, which are present, and where their input is. */
typedef enum plan_form {
    PLAN_ROWS_ALL,     /* every row; all are present; input row r is row r */
    PLAN_ROWS_SPREAD,  /* every row; all are present; input row r is row index[r], or zeros */
    PLAN_ROWS_PRESENT, /* the rows index[k], which are present; their input is row k */
    PLAN_ROWS_SOME     /* every row; row r is present where index[r] is not negative; its input is
                          that row, or zeros */
} plan_form;

/* Arrays that a program reads or writes. */
typedef struct use {
    kv_dtype dtype;
    bool reads, writes;
} use;

typedef struct writer {
    const plan *p;
    const plan_pass *pass;
    plan_form form;
    buf heads; /* declarations of what is the same for all elements of a job */
    use use[PLAN_MAX_SLOTS];
} writer;

/* ---- Programs ---- */

/* The passes of a kernel: from the first one up to the end. */
static int first_of(const plan *p, int kernel)
{
    return p->by_rows ? 0 : kernel;
}

static int end_of(const plan *p, int kernel)
{
    return p->by_rows ? p->npasses : kernel + 1;
}

int plan_text_kernels(const plan *p)
{
    return p->by_rows ? 1 : p->npasses;
}

bool plan_text_possible(const plan *p, plan_input input)
{
    return !p->grid && (p->by_rows || input == PLAN_INPUT_ALL || p->nnumbers == 0);
}

static plan_form form_of(const plan *p, int kernel, plan_input input)
{
    if (input != PLAN_INPUT_PRESENT)
        return input == PLAN_INPUT_ALL ? PLAN_ROWS_ALL : PLAN_ROWS_SPREAD;
    if (p->by_rows)
        return p->every_row ? PLAN_ROWS_SOME : PLAN_ROWS_PRESENT;
    return p->pass[kernel].present ? PLAN_ROWS_PRESENT : PLAN_ROWS_SPREAD;
}

/* ---- Slots ---- */

/* By rows all passes have the same arrays: stored, weight and the states. The place of one among
 * those. */
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
    int of = w->pass->slot[slot];
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
    int of = w->pass->slot[slot];
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
    prog_text(out, w->pass->program, &slots);
}

/* ---- Words ---- */

/* The first word of a pass; for the number behind the last one, the first word of draws. */
static int64_t first_word(const plan *p, int kernel, int pass)
{
    int64_t n = 0;
    for (int before = first_of(p, kernel); before < pass; before++)
        n += p->pass[before].program->npool;
    return n;
}

static bool has_draws(const plan *p, int kernel)
{
    bool any = false;
    for (int i = first_of(p, kernel); i < end_of(p, kernel) && p->ndraws > 0; i++)
        for (int s = 0; s < p->pass[i].nslots; s++)
            any |= plan_slot_kind(p->pass[i].slot[s]) == PLAN_NORMAL;
    return any;
}

/* Writes the words that a job needs: the constants of its programs, then the seed and the count
 * that normal() draws from, where it draws. */
static void fill_words(double *words, const plan *p, int kernel, const plan_arrays *a)
{
    uint64_t draws[2] = {a->seed, (uint64_t)a->t * PLAN_MAX_DRAWS};
    for (int i = first_of(p, kernel); i < end_of(p, kernel); i++) {
        const prog *of = p->pass[i].program;
        const uint64_t *pool = plan_pool_of(a, of);
        memcpy(words + first_word(p, kernel, i), pool ? pool : of->pool,
               (size_t)of->npool * sizeof *words);
    }
    if (has_draws(p, kernel))
        memcpy(words + first_word(p, kernel, end_of(p, kernel)), draws, sizeof draws);
}

static void write_draws(buf *out, const plan *p, int kernel, const char *words)
{
    long long word = (long long)first_word(p, kernel, end_of(p, kernel));
    if (!has_draws(p, kernel))
        return;
    buf_printf(out, "    const kv_u64 seed = (kv_u64)kv_integer(%s[%lld]);\n", words, word);
    buf_printf(out, "    const kv_u64 draw = (kv_u64)kv_integer(%s[%lld]);\n", words, word + 1);
}

/* Which of the passes is being written: by rows it is not a kernel of its own. */
static int kernel_of(const writer *w)
{
    return (int)(w->pass - w->p->pass);
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
    bool single = plan_pass_is_of_numbers(w->pass) || has_draws(w->p, kernel_of(w));
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
    return plan_slot_kind(w->pass->slot[slot]) == PLAN_INPUT;
}

static void declare_arrays(const writer *w, buf *out)
{
    int n = PLAN_MAX_SLOTS;
    for (int s = next_array(w, 0); s < n; s = next_array(w, s + 1)) {
        const char *item = prog_text_item(w->use[s].dtype);
        if (is_input(w, s))
            buf_printf(out, "    const kv_values<%s> a%d = {j};\n", prog_text_tag(w->use[s].dtype),
                       s);
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
    if (plan_pass_is_of_numbers(w->pass))
        return;
    buf_add(out, "        if (whole) {\n");
    write(w, out, "true");
    buf_add(out, "        } else {\n");
    write(w, out, "false");
    buf_add(out, "        }\n");
}

static void write_packs(writer *w, buf *out, const char *name)
{
    own_buf statements = {0};
    write_statements(w, &statements);
    bool numbers = plan_pass_is_of_numbers(w->pass);
    buf_printf(out, "/* What a rule does with %s. */\nstruct %s_work {\n",
               numbers ? "numbers" : "elements", name);
    /* members that are the same for all elements of a job */
    buf_printf(out, "    enum { N = %d };\n", pack_of(w));
    buf_add(out, "    const job_item *j;\n    const double *k = kv_global(j->numbers);\n");
    if (w->heads.len > 0 || numbers)
        buf_printf(out, "    kv_u64 *const c = kv_more<kv_u64>(j, %d);\n", w->pass->nslots);
    prog_text_constants(out, w->pass->program);
    write_draws(out, w->p, kernel_of(w), "k");
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
}

/* ---- A thread for each row ---- */

/* Its sums, too, are of the type of a number. */
static const char *number_item(const plan *p, int i)
{
    return prog_text_item(prog_dtype((prog_type)p->number_type[i]));
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
               (long long)first_word(w->p, 0, kernel_of(w)));
    prog_text_constants(out, w->pass->program);
}

/* A block of PLAN_CHUNK terms begins at 0, and so does what blocks are added to. */
static void write_columns(writer *w, buf *out)
{
    const plan *p = w->p;
    const plan_pass *pass = w->pass;
    buf_printf(out, "    if (%s) {\n", pass->present ? "present" : "true");
    write_constants(w, out);
    for (int s = 0; s < pass->nsums; s++)
        buf_printf(out, "    %s s%d = 0;\n", number_item(p, pass->sum[s].number), s);
    buf_printf(out,
               "    for (kv_i64 from = 0; from < j->row; from += %d) {\n"
               "        const kv_i64 to = j->row - from < %d ? j->row : from + %d;\n",
               PLAN_CHUNK, PLAN_CHUNK, PLAN_CHUNK);
    for (int s = 0; s < pass->nsums; s++)
        buf_printf(out, "        %s b%d = 0;\n", number_item(p, pass->sum[s].number), s);
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
    for (w->pass = p->pass; w->pass < p->pass + p->npasses; w->pass++) {
        if (!plan_pass_is_of_numbers(w->pass)) {
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
    writer w = {.p = p, .pass = &p->pass[kernel], .form = form_of(p, kernel, input)};
    if (p->by_rows)
        write_rows(&w, out, name);
    else
        write_packs(&w, out, name);
}

/* ==== Jobs ==== */

enum {
    PLACE_BYTES = 256, /* what blocks of the device's memory are aligned to */
    RECENT = 4         /* kinds of plans: layers take turns of few kinds of weights */
};

/* The stages of a pass: sums of values for a kernel by rows, the kernel, sums of its terms. */
enum { SUM_VALUES, KERNEL, CHUNKS, ALL, STAGES };

typedef struct plan_kernel {
    const gpu_rule *rule;
    const double *words; /* those of kernels.pool_of */
} plan_kernel;

/* The kernels of a plan, which keys share as they share the case of a rule. */
typedef struct kernels {
    const plan *plan; /* NULL: none */
    plan_input input;
    const uint64_t *pool_of; /* of the last item */
    plan_kernel of[PLAN_MAX_PASSES];
} kernels;

/* The place of the numbers and terms of an item in the room. Items that do not fit beside each
 * other take turns. */
typedef struct place {
    int turn;
    int64_t offset;
} place;

typedef struct run {
    gpu_list *list;
    int id;
    const plan_gpu_item *items;
    place *places; /* of each item */
    char *room;
    const int64_t *rows; /* NULL, or find_rows of the item that is being added */
    kernels recent[RECENT];
    int64_t nrecent;
} run;

/* ---- Kernels ---- */

static int compile_all(kernels *k, const gpu_ops *gpu, int id, const plan *p, plan_input input,
                       kv_err *e)
{
    *k = (kernels){.input = input};
    for (int i = 0; i < plan_text_kernels(p); i++) {
        own_buf text = {0};
        plan_text(&text, p, i, input, GPU_RULE_KERNEL);
        TRY(buf_check(&text, e));
        TRY(gpu->compile(id, buf_text(&text), &k->of[i].rule, e));
    }
    k->plan = p;
    return KV_OK;
}

int plan_gpu_prepare(const gpu_ops *gpu, int id, const plan *p, plan_input input,
                     const plan *before, kv_err *e)
{
    kernels unused;
    return before == p ? KV_OK : compile_all(&unused, gpu, id, p, input, e);
}

static int find_kernels(run *r, const plan_gpu_item *item, kernels **out, kv_err *e)
{
    for (int i = 0; i < RECENT; i++) {
        *out = &r->recent[i];
        if ((*out)->plan == item->plan && (*out)->input == item->input)
            return KV_OK;
    }
    *out = &r->recent[r->nrecent++ % RECENT];
    return compile_all(*out, r->list->gpu, r->id, item->plan, item->input, e);
}

/* ---- The room: of each item its numbers, the sums of chunks, then the terms ---- */

static int64_t whole(int64_t bytes)
{
    return (bytes + PLACE_BYTES - 1) / PLACE_BYTES * PLACE_BYTES;
}

static int64_t nchunks_of(const plan_gpu_item *item)
{
    int64_t size = item->arrays->size;
    return size / PLAN_CHUNK + (size % PLAN_CHUNK != 0);
}

static kv_dtype number_dtype(const plan *p, int number)
{
    return prog_dtype((prog_type)p->number_type[number]);
}

static int64_t numbers_bytes(const plan_gpu_item *item)
{
    return whole(item->plan->nnumbers * (int64_t)sizeof(double));
}

static int64_t chunks_bytes(const plan_gpu_item *item)
{
    return whole(nchunks_of(item) * (int64_t)sizeof(double));
}

/* Of the first n sums of a pass, with all chunks' sums before the first one's terms. */
static int64_t sums_bytes(const plan_gpu_item *item, const plan_pass *pass, int n)
{
    int64_t bytes = pass->nsums * chunks_bytes(item);
    for (int s = 0; s < n; s++)
        bytes += whole(item->arrays->size *
                       kv_dtype_bytes(number_dtype(item->plan, pass->sum[s].number)));
    return bytes;
}

/* By rows, numbers and sums are variables of a kernel. */
static int64_t item_bytes(const plan_gpu_item *item)
{
    int64_t most = 0;
    if (item->plan->by_rows)
        return 0;
    for (int i = 0; i < item->plan->npasses; i++) {
        const plan_pass *pass = &item->plan->pass[i];
        int64_t bytes = sums_bytes(item, pass, pass->nsums);
        most = bytes > most ? bytes : most;
    }
    return numbers_bytes(item) + most;
}

/* Gives the items their places, as many a turn as there is room for, but one at least. */
static int share_room(run *r, int64_t n, kv_err *e)
{
    place next = {0, 0};
    int64_t most = 0;
    void *block = NULL;
    r->places = arena_alloc(&r->list->memory, (size_t)n * sizeof *r->places + 1, e);
    if (!r->places)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes = item_bytes(&r->items[i]);
        if (next.offset > 0 && next.offset + bytes > r->list->gpu->scratch)
            next = (place){next.turn + 1, 0};
        r->places[i] = next;
        next.offset += bytes;
        most = next.offset > most ? next.offset : most;
    }
    int rc = most > 0 ? gpu_list_block_new(r->list, r->id, most, &block, e) : KV_OK;
    r->room = block;
    return rc;
}

static void *numbers_of(const run *r, int64_t item)
{
    const plan *p = r->items[item].plan;
    return p->nnumbers && !p->by_rows ? r->room + r->places[item].offset : NULL;
}

static char *chunks_of(const run *r, int64_t item, int sum)
{
    const plan_gpu_item *of = &r->items[item];
    return r->room + r->places[item].offset + numbers_bytes(of) + sum * chunks_bytes(of);
}

static void *terms_of(const run *r, int64_t item, const plan_pass *pass, int sum)
{
    return chunks_of(r, item, 0) + sums_bytes(&r->items[item], pass, sum);
}

/* ---- Jobs ---- */

static gpu_launch launch_of(const run *r, int64_t item, int pass, int stage)
{
    int first = (r->places[item].turn * PLAN_MAX_PASSES + pass) * STAGES;
    return (gpu_launch){.stage = first + stage, .id = r->id};
}

/* The arrays of a kernel, and the numbers behind them. */
static int add_arrays(run *r, gpu_job *job, int64_t item, const plan_pass *pass, kv_err *e)
{
    bool by_rows = r->items[item].plan->by_rows;
    int n = by_rows ? 2 + PLAN_MAX_STATES : pass->nslots;
    void **arrays = arena_alloc(&r->list->memory, (size_t)(n + 1) * sizeof *arrays, e);
    if (!arrays)
        return KV_E_MEMORY;
    for (int s = 0; s < n; s++) {
        int slot = !by_rows ? pass->slot[s] : s < 2 ? s * PLAN_WEIGHT : PLAN_STATE + s - 2;
        void *const *array = plan_array_of(r->items[item].arrays, slot);
        arrays[s] = plan_slot_kind(slot) == PLAN_TERMS
                        ? terms_of(r, item, pass, plan_slot_index(slot))
                    : array ? *array
                            : NULL;
    }
    arrays[n] = numbers_of(r, item);
    job->more = arrays;
    job->nmore = n + 1;
    return KV_OK;
}

/* Neighbours that have the same numbers share the words. */
static int add_words(run *r, gpu_job *job, const plan_gpu_item *item, int which, kernels *own,
                     kv_err *e)
{
    const plan *p = item->plan;
    plan_kernel *k = &own->of[which];
    bool draws = has_draws(p, which);
    job->nnumbers = first_word(p, which, end_of(p, which)) + (draws ? 2 : 0);
    job->numbers = own->pool_of == item->arrays->pool && !draws ? k->words : NULL;
    if (job->numbers)
        return KV_OK;
    double *words = arena_alloc(&r->list->memory, (size_t)job->nnumbers * sizeof *words, e);
    if (!words)
        return KV_E_MEMORY;
    fill_words(words, p, which, item->arrays);
    job->numbers = k->words = words;
    return KV_OK;
}

/* A kernel by rows reads its input in each pass, so several values are summed before. */
static int sum_values(run *r, int64_t item, gpu_job *job, kv_err *e)
{
    const plan_gpu_item *of = &r->items[item];
    kv_dtype dtype = of->arrays->input_dtype;
    gpu_launch as = launch_of(r, item, 0, SUM_VALUES);
    gpu_job sum = {.n = of->arrays->size, .src = of->values, .nsrc = of->nvalues, .to = dtype};
    const void **src = arena_alloc(&r->list->memory, sizeof *src, e);
    as.work = GPU_SUM;
    TRY(src ? gpu_list_block_new(r->list, r->id, sum.n * kv_dtype_bytes(dtype), &sum.dst, e)
            : KV_E_MEMORY);
    *src = sum.dst;
    job->src = src;
    job->nsrc = 1;
    return gpu_list_add(r->list, &as, &sum, e);
}

/* For each row of the key which of the input's it is, or -1. */
static const int64_t *find_rows(run *r, const plan_gpu_item *item, int64_t n, kv_err *e)
{
    int64_t *rows;
    if (r->rows)
        return r->rows;
    rows = arena_alloc(&r->list->memory, (size_t)n * sizeof *rows, e);
    for (int64_t i = 0; i < n && rows; i++)
        rows[i] = -1;
    for (int64_t k = 0; k < item->nids && rows; k++)
        rows[item->ids[k]] = k;
    return r->rows = rows;
}

/* The elements of a kernel over elements, or by rows. */
static int add_elements(run *r, gpu_job *job, int64_t item, int which, kv_err *e)
{
    const plan_gpu_item *of = &r->items[item];
    const plan_arrays *a = of->arrays;
    plan_form form = form_of(of->plan, which, of->input);
    *job = (gpu_job){.n = a->size, .src = of->values, .nsrc = of->nvalues};
    if (form == PLAN_ROWS_ALL && !of->plan->by_rows)
        return KV_OK;
    if (!kv_assert(a->row > 0 && (form == PLAN_ROWS_ALL || of->nvalues == 1),
                   "a kernel over rows of %lld elements has %lld inputs", (long long)a->row,
                   (long long)of->nvalues))
        return kv_assert_report(e);
    int64_t rows = form == PLAN_ROWS_PRESENT ? of->nids : a->size / a->row;
    job->n = rows * (of->plan->by_rows ? PLAN_ROW_ELEMENTS : a->row);
    job->row = a->row;
    if (form == PLAN_ROWS_ALL)
        return of->nvalues > 1 ? sum_values(r, item, job, e) : KV_OK;
    job->index = form == PLAN_ROWS_PRESENT ? of->ids : find_rows(r, of, rows, e);
    job->nindex = rows;
    return job->index ? KV_OK : KV_E_MEMORY;
}

static int add_kernel(run *r, int64_t item, int which, kernels *k, kv_err *e)
{
    const plan_gpu_item *of = &r->items[item];
    gpu_launch as = launch_of(r, item, which, KERNEL);
    gpu_job job = {.n = 1};
    bool numbers = !of->plan->by_rows && plan_pass_is_of_numbers(&of->plan->pass[which]);
    TRY(numbers ? KV_OK : add_elements(r, &job, item, which, e));
    TRY(add_arrays(r, &job, item, &of->plan->pass[which], e));
    TRY(add_words(r, &job, of, which, k, e));
    as.rule = k->of[which].rule;
    return gpu_list_add(r->list, &as, &job, e);
}

/* Terms become the sums of chunks, and these one number. */
static int add_sum(run *r, int64_t item, int pass, int sum, kv_err *e)
{
    const plan_gpu_item *of = &r->items[item];
    const plan_pass *own = &of->plan->pass[pass];
    gpu_launch chunks = launch_of(r, item, pass, CHUNKS), all = launch_of(r, item, pass, ALL);
    const void **from = arena_alloc(&r->list->memory, 2 * sizeof *from, e);
    int number = own->sum[sum].number;
    if (!from)
        return KV_E_MEMORY;
    from[0] = terms_of(r, item, own, sum);
    from[1] = chunks_of(r, item, sum);
    gpu_job job = {.dst = chunks_of(r, item, sum),
                   .n = nchunks_of(of),
                   .row = of->arrays->size,
                   .src = &from[0],
                   .nsrc = 1,
                   .to = number_dtype(of->plan, number)};
    chunks.work = GPU_SUM_CHUNKS;
    TRY(gpu_list_add(r->list, &chunks, &job, e));
    job.dst = (double *)numbers_of(r, item) + number;
    job.row = job.n;
    job.n = 1;
    job.src = &from[1];
    all.work = GPU_SUM_ALL;
    return gpu_list_add(r->list, &all, &job, e);
}

static int add_item(run *r, int64_t item, kv_err *e)
{
    const plan *p = r->items[item].plan;
    kernels *k;
    TRY(find_kernels(r, &r->items[item], &k, e));
    r->rows = NULL;
    for (int i = 0; i < plan_text_kernels(p); i++)
        TRY(add_kernel(r, item, i, k, e));
    for (int i = 0; i < p->npasses && !p->by_rows; i++)
        for (int s = 0; s < p->pass[i].nsums; s++)
            TRY(add_sum(r, item, i, s, e));
    k->pool_of = r->items[item].arrays->pool;
    return KV_OK;
}

int plan_gpu_run(gpu_list *l, int id, const plan_gpu_item *items, int64_t n, kv_err *e)
{
    run r = {.list = l, .id = id, .items = items};
    (void)kv_assert(l->n == 0, "a list has %lld launches before those of rules", (long long)l->n);
    TRY(share_room(&r, n, e));
    for (int64_t i = 0; i < n; i++)
        TRY(add_item(&r, i, e));
    return gpu_list_run(l, e);
}
