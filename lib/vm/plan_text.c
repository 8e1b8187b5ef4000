/* The frame of a kernel, and what stands for the slots of its program: packs of arrays, numbers
 * that were read before, what normal() draws. */
#include "vm/plan_text.h"

#include <string.h>

#include "vm/plan_pass.h"
#include "vm/prog_text.h"

/* Elements of a pack: no more, so that what a thread holds of them stays in registers. */
enum { MOST = 8, ACCESS_BYTES = 16 };

/* What slots are to a text. */
typedef enum kind { CELL, DRAW, INPUT, ARRAY } kind;

/* Arrays that a program reads or writes. */
typedef struct use {
    kv_dtype dtype;
    bool reads, writes;
} use;

typedef struct writer {
    const plan_pass *pass;
    plan_part part;
    buf heads; /* declarations of what is the same for all elements of a job */
    use use[PLAN_MAX_SLOTS];
} writer;

static const prog *prog_of(const plan *p, int pass, plan_part part)
{
    return part == PLAN_NUMBERS ? p->pass[pass].numbers : p->pass[pass].elements;
}

bool plan_text_possible(const plan *p)
{
    return !p->by_rows;
}

bool plan_text_has(const plan *p, int pass, plan_part part)
{
    return prog_of(p, pass, part) != NULL;
}

/* ---- Slots ---- */

/* Of a program over numbers, slot i is number i. *index: of a number, or of a draw. */
static kind kind_of(const plan_pass *pass, plan_part part, int slot, int *index)
{
    int is = part == PLAN_NUMBERS ? PLAN_PRIVATE + slot : pass->slot[slot];
    *index = is - PLAN_PRIVATE;
    if (is >= PLAN_PRIVATE)
        return is < PLAN_PRIVATE + PLAN_MAX_NUMBERS ? CELL : ARRAY;
    if (is >= PLAN_ROW_STATE)
        return ARRAY;
    *index = is % PLAN_PRESENT - PLAN_NORMAL;
    if (*index >= 0 && *index < PLAN_MAX_DRAWS)
        return DRAW;
    return is % PLAN_PRESENT == PLAN_INPUT ? INPUT : ARRAY;
}

static void read_slot(void *arg, buf *out, int slot, kv_dtype dtype)
{
    writer *w = arg;
    const char *item = prog_text_item(dtype);
    int index;
    switch (kind_of(w->pass, w->part, slot, &index)) {
    case CELL:
        buf_printf(&w->heads, "    const %s n%d = *(const %s *)(c + %d);\n", item, index, item,
                   index);
        buf_printf(out, "n%d", index);
        return;
    case DRAW:
        buf_printf(out, "(%s)kv_normal(seed, draw + %d, (kv_u64)(i + e))", item, index);
        return;
    case INPUT:
    case ARRAY:
        w->use[slot].dtype = dtype;
        w->use[slot].reads = true;
        buf_printf(out, "x%d.v[e]", slot);
    }
}

static void write_slot(void *arg, buf *out, int slot, kv_dtype dtype, int v)
{
    writer *w = arg;
    int index;
    if (kind_of(w->pass, w->part, slot, &index) == CELL) {
        buf_printf(out, "            *(%s *)(c + %d) = v%d;\n", prog_text_item(dtype), index, v);
        return;
    }
    w->use[slot].dtype = dtype;
    w->use[slot].writes = true;
    buf_printf(out, "            x%d.v[e] = v%d;\n", slot, v);
}

static bool has_draws(const plan *p, int pass, plan_part part)
{
    const plan_pass *of = &p->pass[pass];
    bool any = false;
    int index;
    for (int s = 0; part == PLAN_ELEMENTS && s < of->nslots; s++)
        any |= kind_of(of, part, s, &index) == DRAW;
    return any;
}

/* ---- Words ---- */

int64_t plan_text_words(const plan *p, int pass, plan_part part)
{
    return prog_text_words(prog_of(p, pass, part)) + (has_draws(p, pass, part) ? 2 : 0);
}

void plan_text_fill(double *words, const plan *p, int pass, plan_part part, uint64_t seed,
                    int64_t t)
{
    const prog *of = prog_of(p, pass, part);
    uint64_t draws[2] = {seed, (uint64_t)t * PLAN_MAX_DRAWS};
    prog_text_fill(words, of);
    if (has_draws(p, pass, part))
        memcpy(&words[prog_text_words(of)], draws, sizeof draws);
}

bool plan_text_is_shared(const plan *p, int pass, plan_part part)
{
    return !has_draws(p, pass, part);
}

/* ---- Text ---- */

/* As many elements as 16 bytes hold of the widest array. What draws computes for longer than it
 * waits for memory. */
static int64_t pack_of(const writer *w, bool draws)
{
    int64_t n = MOST;
    for (int s = 0; s < w->pass->nslots; s++)
        while ((w->use[s].reads || w->use[s].writes) &&
               n * kv_dtype_bytes(w->use[s].dtype) > ACCESS_BYTES)
            n /= 2;
    return draws || w->part == PLAN_NUMBERS ? 1 : n;
}

/* The next slot from s on whose array is read or written, or that behind the last one. */
static int next_array(const writer *w, int s)
{
    while (s < w->pass->nslots && !w->use[s].reads && !w->use[s].writes)
        s++;
    return s;
}

static bool is_input(const writer *w, int slot)
{
    int index;
    return kind_of(w->pass, w->part, slot, &index) == INPUT;
}

static void declare_arrays(const writer *w, buf *out)
{
    int n = w->pass->nslots;
    for (int s = next_array(w, 0); s < n; s = next_array(w, s + 1)) {
        const char *item = prog_text_item(w->use[s].dtype);
        if (is_input(w, s))
            buf_printf(out, "    const kv_values<%s> a%d = {j};\n",
                       prog_text_tag(w->use[s].dtype), s);
        else
            buf_printf(out, "    %s *const a%d = (%s *)j->more[%d];\n", item, s, item, s);
    }
    buf_add(out, "    const bool packs = true");
    for (int s = next_array(w, 0); s < n; s = next_array(w, s + 1))
        buf_printf(out, is_input(w, s) ? " && a%d.fit<N>()" : " && kv_fits<N>(a%d)", s);
    buf_add(out, ";\n");
}

static void declare_packs(const writer *w, buf *out)
{
    for (int s = next_array(w, 0); s < w->pass->nslots; s = next_array(w, s + 1))
        buf_printf(out, "        kv_pack<%s, N> x%d;\n", prog_text_item(w->use[s].dtype), s);
}

static void load_packs(const writer *w, buf *out, const char *whole)
{
    for (int s = 0; s < w->pass->nslots; s++)
        if (w->use[s].reads && is_input(w, s))
            buf_printf(out, "            x%d = a%d.load<N, %s>(i, n);\n", s, s, whole);
        else if (w->use[s].reads)
            buf_printf(out, "            x%d = kv_load<N, %s>(a%d, i, n);\n", s, whole, s);
}

static void store_packs(const writer *w, buf *out, const char *whole)
{
    for (int s = 0; s < w->pass->nslots; s++)
        if (w->use[s].writes)
            buf_printf(out, "            kv_store<N, %s>(a%d, i, n, x%d);\n", whole, s, s);
}

/* What is done with all arrays, in either way: so the accesses of a pack come one behind the other,
 * and the device does not wait between them. */
static void write_both(const writer *w, buf *out,
                       void (*write)(const writer *w, buf *out, const char *whole))
{
    if (w->part == PLAN_NUMBERS)
        return;
    buf_add(out, "        if (whole) {\n");
    write(w, out, "true");
    buf_add(out, "        } else {\n");
    write(w, out, "false");
    buf_add(out, "        }\n");
}

static bool same_slots(const plan_pass *p, const plan_pass *q)
{
    return p->nslots == q->nslots &&
           memcmp(p->slot, q->slot, (size_t)p->nslots * sizeof *p->slot) == 0;
}

bool plan_text_same(const plan *p, const plan *q)
{
    bool same = p == q || p->npasses == q->npasses;
    for (int i = 0; i < p->npasses && p != q && same; i++) {
        same = same_slots(&p->pass[i], &q->pass[i]);
        for (int part = 0; part < PLAN_PARTS && same; part++) {
            const prog *a = prog_of(p, i, part), *b = prog_of(q, i, part);
            same = a && b ? prog_text_same(a, b) : a == b;
        }
    }
    return same;
}

/* What is the same for all elements of a job. */
static void write_members(const writer *w, buf *out, const plan *p, int pass)
{
    const prog *of = prog_of(p, pass, w->part);
    long long word = (long long)prog_text_words(of);
    bool draws = has_draws(p, pass, w->part);
    int numbers = w->part == PLAN_NUMBERS ? 0 : w->pass->nslots;
    buf_printf(out, "    enum { N = %d };\n", (int)pack_of(w, draws));
    buf_add(out, "    const job_item *j;\n    const double *k = j->numbers;\n");
    if (w->heads.len > 0 || w->part == PLAN_NUMBERS)
        buf_printf(out, "    kv_u64 *const c = (kv_u64 *)j->more[%d];\n", numbers);
    prog_text_constants(out, of);
    if (draws) {
        buf_printf(out, "    const kv_u64 seed = (kv_u64)kv_integer(k[%lld]);\n", word);
        buf_printf(out, "    const kv_u64 draw = (kv_u64)kv_integer(k[%lld]);\n", word + 1);
    }
    buf_add(out, buf_text(&w->heads));
    declare_arrays(w, out);
}

void plan_text(buf *out, const plan *p, int pass, plan_part part, const char *name)
{
    writer w = {.pass = &p->pass[pass], .part = part};
    const prog_text_slots slots = {&w, read_slot, write_slot};
    buf statements = {0};
    prog_text(&statements, prog_of(p, pass, part), &slots);
    buf_printf(out, "/* What a rule does with %s. */\nstruct %s_work {\n",
               part == PLAN_NUMBERS ? "numbers" : "elements", name);
    write_members(&w, out, p, pass);
    buf_add(out, "    __device__ __forceinline__ void at(kv_i64 i, int n) const\n    {\n");
    buf_add(out, "        const bool whole = packs && n == N;\n");
    declare_packs(&w, out);
    write_both(&w, out, load_packs);
    buf_add(out, "#pragma unroll\n        for (int e = 0; e < N; e++) {\n");
    buf_add(out, buf_text(&statements));
    buf_add(out, "        }\n");
    write_both(&w, out, store_packs);
    buf_printf(out, "    }\n};\nextern \"C\" __global__ void %s(job_list l)\n{\n", name);
    buf_printf(out, "    kv_each_pack<%s_work>(l);\n}\nKV_KERNEL(%s)\n", name, name);
    out->failed |= w.heads.failed || statements.failed;
    buf_release(&w.heads);
    buf_release(&statements);
}
