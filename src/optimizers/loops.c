/* Writes the loops of all programs that the optimizers and some merges have, as C: loops FILE.kvu …
 * OUT.c. A program of one instruction has a kernel, and needs no other loop. On x86-64 they are for
 * AVX2 and wider: elsewhere room counts for more, and blocks do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "optimizers/paths.h"
#include "vm/prog.h"
#include "vm/prog_text.h"

typedef struct loop {
    uint64_t hash;
    bool adds, packs;
    buf text;
} loop;

typedef struct work {
    buf out;
    loop *loops;
    int64_t nloops, cap;
} work;

/* ---- One loop -------------------------------------------------------------------------------- */

typedef struct writer {
    const prog *p;
    buf heads, loads;
    bool declared[PROG_MAX_SLOT + 1];
    bool first; /* array 1 is read, and of float32 */
    bool packs;
    int stored; /* the array of a loop that packs */
} writer;

static void declare_array(writer *w, int slot, kv_dtype dtype)
{
    const char *item = w->packs               ? "loop_pair"
                       : dtype == KV_BFLOAT16 ? "uint16_t"
                                              : prog_text_item(dtype);
    if (!w->declared[slot])
        buf_printf(&w->heads, "    %s *const p%d = array[%d];\n", item, slot, slot);
    w->declared[slot] = true;
}

static void read_slot(void *arg, buf *out, int slot, kv_dtype dtype)
{
    writer *w = arg;
    const char *item = prog_text_item(dtype);
    bool first = slot == 1 && dtype == KV_FLOAT32 && w->p->slot_bytes[slot] != 0;
    const char *load = w->packs               ? "            const %s x%d = LOOP_HALF(p%d[i]);\n"
                       : dtype == KV_BFLOAT16 ? "            const %s x%d = (kv_u16)p%d[i] << 16;\n"
                                              : "            const %s x%d = p%d[i];\n";
    if (first)
        buf_add(out, "first_x");
    else
        buf_printf(out, "x%d", slot);
    if (w->p->slot_bytes[slot] == 0) {
        buf_printf(&w->heads, "    const %s x%d = *(const %s *)array[%d];\n", item, slot, item,
                   slot);
        return;
    }
    declare_array(w, slot, dtype);
    w->first |= first;
    if (!first)
        buf_printf(&w->loads, load, item, slot, slot);
}

static void write_slot(void *arg, buf *out, int slot, kv_dtype dtype, int v)
{
    writer *w = arg;
    declare_array(w, slot, dtype);
    if (w->packs)
        buf_printf(out, "            LOOP_STORE(v%d)\n", v);
    else
        buf_printf(out, "            p%d[i] = v%d;\n", slot, v);
    w->stored = slot;
}

/* Returns true for a program that stores one array of float32 and reads some of bfloat16 only, as
 * the last passes of merges do: its result is mostly rounded to bfloat16. */
static bool packs(const prog *p)
{
    int narrow = 0, stored = 0;
    for (int32_t s = 0; s < p->nslots; s++) {
        bool read = false, written = false;
        for (const inst *in = p->insts; in < p->insts + p->ninsts; in++) {
            const int place = p->nregs + s;
            written |= in->dst == place;
            read |= in->dst != place && (in->a == place || in->b == place || in->c == place);
            if (in->kind == INST_CONVERT ? in->from != KV_BFLOAT16 || in->to != KV_FLOAT32
                                         : in->kind == INST_NARROW || in->type != PROG_F32)
                return false;
        }
        narrow += p->slot_bytes[s] == 2;
        stored += written && !read && p->slot_bytes[s] == 4;
        if ((written && p->slot_bytes[s] != 4) || (!written && p->slot_bytes[s] > 2))
            return false;
    }
    return narrow > 0 && stored == 1;
}

static void write_loop(buf *out, const prog *p)
{
    writer w = {.p = p, .packs = packs(p)};
    const prog_text_slots slots = {&w, read_slot, write_slot};
    own_buf statements = {0};
    prog_text(&statements, p, &slots);
    prog_text_constants(&w.heads, p);
    if (w.packs)
        buf_printf(out, "p%d[i],\n", w.stored);
    else
        buf_add(out, w.first ? "p1[i],\n" : "0,\n");
    buf_add(out, buf_text(&w.heads));
    buf_add(out, "    ,\n");
    buf_add(out, buf_text(&w.loads));
    buf_add(out, buf_text(&statements));
    buf_add(out, ")\n");
    out->failed |= w.heads.failed || w.loads.failed || statements.failed;
    buf_release(&w.heads);
    buf_release(&w.loads);
}

/* ---- All of them ----------------------------------------------------------------------------- */

static void meet(void *arg, const prog *p, bool adds)
{
    work *w = arg;
    uint64_t hash = prog_hash(p);
    int64_t i = 0;
    if (p->ninsts <= 1)
        return;
    while (i < w->nloops && w->loops[i].hash != hash)
        i++;
    if (i == w->nloops) {
        w->out.failed |= mem_grow(&w->loops, &w->cap, i + 1, sizeof *w->loops, NULL) != KV_OK;
        if (w->out.failed)
            return;
        w->loops[w->nloops++] = (loop){.hash = hash, .packs = packs(p)};
        write_loop(&w->loops[i].text, p);
    }
    w->loops[i].adds |= adds;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = ((const loop *)a)->hash, y = ((const loop *)b)->hash;
    return (x > y) - (x < y);
}

static int add_rule(work *w, const char *name, kv_err *e)
{
    rule_paths p = {0};
    own_mem char *text = NULL;
    size_t n;
    int rc = file_read(name, &text, &n, e);
    rc = rc ? rc : rule_paths_read(&p, text, e);
    rc = rc ? rc : rule_paths_walk(&p, meet, w, e);
    rule_paths_release(&p);
    return rc;
}

static int write_all(work *w, const char *name, kv_err *e)
{
    file_out out;
    if (w->nloops > 0)
        qsort(w->loops, (size_t)w->nloops, sizeof *w->loops, compare);
    for (loop *l = w->loops; l < w->loops + w->nloops; l++) {
        buf_printf(&w->out, "\n%s(loop_%d, ",
                   l->packs  ? "LOOP_PACK"
                   : l->adds ? "LOOP_SUM"
                             : "LOOP",
                   (int)(l - w->loops));
        buf_add(&w->out, buf_text(&l->text));
        w->out.failed |= l->text.failed;
        buf_release(&l->text);
    }
    buf_add(&w->out, "\nconst rule_loop rule_loops[] = {\n");
    for (const loop *l = w->loops; l < w->loops + w->nloops; l++)
        buf_printf(&w->out, "    LOOP_ENTRY(loop_%d, 0x%016llxu, %d, %d)\n", (int)(l - w->loops),
                   (unsigned long long)l->hash, l->adds, l->packs);
    buf_printf(&w->out, "};\nconst int rule_nloops = %d;\n", (int)w->nloops);
    int rc = buf_check(&w->out, e);
    rc = rc ? rc : file_out_open(&out, name, e);
    if (rc)
        return rc;
    fputs(buf_text(&w->out), out.f);
    return file_out_commit(&out, e);
}

int main(int argc, char **argv)
{
    kv_err e = {0};
    work w = {0};
    int rc = KV_OK;
    buf_add(&w.out, "/* Written by src/optimizers/loops.c. */\n#include \"vm/rule_loop.h\"\n");
    for (int i = 1; i < argc - 1 && !rc; i++)
        rc = add_rule(&w, argv[i], &e);
    rc = rc ? rc : write_all(&w, argv[argc - 1], &e);
    if (rc)
        fprintf(stderr, "%s: %s\n", argv[0], e.text);
    buf_release(&w.out);
    mem_free(w.loops);
    return rc != KV_OK;
}
