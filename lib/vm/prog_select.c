/* Programs, second half: nodes become instructions, their results get places.
 *
 * Each node that is needed becomes one instruction, but a product with a constant that only one
 * sum, difference, product or quotient needs, which is a factor of its operand: the loop then makes
 * both, each rounded by itself. Programs that run often have a loop that the C compiler made of all
 * instructions (rule_loop.h), which keeps results in registers of the processor.
 *
 * Places. A constant has a register that is filled before all blocks. Another result lives in a
 * register of one block. When it is stored, and no later instruction reads the old contents of the
 * array, it is written to the array at once, and later instructions read it there. All other stores
 * come last. Arrays of a type that needs no conversion are operands as they are; nothing is copied.
 *
 * Worked example, stored = stored - 0.1*input, w = stored*stored (arrays 0, 1, 2, all float32)
 *     a0 = a0*1 - a1*0.1
 *     a2 = a0 * a0
 */
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "vm/prog.h"

/* An instruction whose operands are nodes. */
typedef struct draft {
    int32_t node;      /* whose value it gives; -1 for a store behind the others */
    int32_t kid[3];    /* -1: unused */
    int32_t factor[2]; /* INST_SCALED: of the first two, or -1 */
    int32_t slot;      /* the array it writes, or -1: a register */
    uint8_t kind, type, op, to, from;
} draft;

enum {
    NODE_NEEDED = 1, /* some instruction reads it or it is stored */
    NODE_COPIED = 2  /* a load whose array is overwritten before its last use */
};

typedef struct selection {
    prog_builder *b;
    node *nodes;
    draft *drafts;
    int32_t *where; /* of each node: a register, -1 for none, or -2 - slot */
    int32_t *last;  /* of each node: the last draft that reads it */
    int32_t *free_regs;
    int32_t ndrafts, nscaled, nregs, nfills, nslots, nfree;
    /* Of each slot: the last draft that reads what it held before. */
    int32_t read[PROG_MAX_SLOT + 1];
} selection;

/* ---- Instructions ---------------------------------------------------------------------------- */

/* A load that needs no instruction: the array itself is the operand. */
static bool is_direct(const node *n)
{
    return n->op == NODE_LOAD && n->dtype == prog_dtype((prog_type)n->type) &&
           !(n->flags & NODE_COPIED);
}

/* A store of what the array holds anyway. */
static bool is_idle(const selection *s, const node_store *st)
{
    const node *n = &s->nodes[st->value];
    return n->op == NODE_LOAD && n->kid[0] == st->slot && n->dtype == st->dtype &&
           n->type == prog_type_of(st->dtype);
}

static bool is_stored(const selection *s, int32_t slot)
{
    for (int64_t i = 0; i < s->b->nstores; i++)
        if (s->b->stores[i].slot == slot && !is_idle(s, &s->b->stores[i]))
            return true;
    return false;
}

static void count_uses(selection *s)
{
    prog_builder *b = s->b;
    for (int64_t i = 0; i < b->nnodes; i++) {
        b->nodes[i].uses = 0;
        b->nodes[i].flags = 0;
    }
    for (int64_t i = 0; i < b->nstores; i++) {
        node *n = &b->nodes[b->stores[i].value];
        if (is_idle(s, &b->stores[i]))
            continue;
        n->uses++;
        n->flags |= NODE_NEEDED;
        /* the array would be read when all the others have been written */
        if (n->op == NODE_LOAD && is_stored(s, n->kid[0]))
            n->flags |= NODE_COPIED;
    }
    for (int64_t i = b->nnodes - 1; i >= 0; i--) {
        const node *n = &b->nodes[i];
        if (n->uses == 0 || n->op == NODE_LOAD)
            continue;
        for (int j = 0; j < 3; j++)
            if (n->kid[j] >= 0)
                b->nodes[n->kid[j]].uses++;
    }
}

/* Operands that are products with a constant become factors, if nothing else needs them. */
static void take_factors(selection *s, draft *d)
{
    for (int j = 0; j < 2; j++) {
        const node *x = &s->nodes[d->kid[j]];
        bool product = x->op == PROG_MUL && s->nodes[x->kid[1]].op == NODE_CONST && x->uses == 1;
        d->factor[j] = product ? x->kid[1] : -1;
        d->kid[j] = product ? x->kid[0] : d->kid[j];
        d->kind = product ? INST_SCALED : d->kind;
    }
    s->nscaled += d->kind == INST_SCALED;
}

/* The instruction for node i; it writes a register. */
static draft make_draft(const selection *s, int32_t i)
{
    const node *n = &s->nodes[i];
    kv_dtype own = prog_dtype((prog_type)n->type);
    draft d = {.node = i,
               .kid = {n->kid[0], n->kid[1], n->kid[2]},
               .slot = -1,
               .kind = n->op < PROG_NOPS ? INST_KERNEL : INST_CONVERT,
               .type = n->type,
               .op = n->op,
               .to = (uint8_t)own};
    if (n->op == NODE_LOAD) {
        d.kid[0] = i;
        d.kid[1] = -1;
        d.from = n->dtype;
    } else if (n->op == NODE_CAST) {
        d.from = (uint8_t)prog_dtype((prog_type)s->nodes[n->kid[0]].type);
    } else if (n->op == NODE_NARROW) {
        d.kind = INST_NARROW;
        d.from = (uint8_t)own;
        d.to = n->dtype;
    }
    return d;
}

static void make_drafts(selection *s)
{
    for (int64_t i = s->b->nnodes - 1; i >= 0; i--) {
        const node *n = &s->nodes[i];
        if (!(n->flags & NODE_NEEDED) || n->op == NODE_CONST || is_direct(n))
            continue;
        draft *d = &s->drafts[s->ndrafts++];
        *d = make_draft(s, (int32_t)i);
        if (n->op < PROG_NOPS && n->type != PROG_I64 && s->b->kernels->scaled[n->type][n->op])
            take_factors(s, d);
        for (int j = 0; j < 3; j++)
            if (d->kid[j] >= 0)
                s->nodes[d->kid[j]].flags |= NODE_NEEDED;
    }
    for (int32_t i = 0, j = s->ndrafts - 1; i < j; i++, j--) {
        draft d = s->drafts[i];
        s->drafts[i] = s->drafts[j];
        s->drafts[j] = d;
    }
}

/* The slot that instruction d reads through operand j, or -1. */
static int32_t slot_read(const selection *s, const draft *d, int j)
{
    if (d->kid[j] < 0)
        return -1;
    const node *n = &s->nodes[d->kid[j]];
    /* the instruction of a load reads the array, the others what it gave */
    return is_direct(n) || d->kid[j] == d->node ? n->kid[0] : -1;
}

static void note_slots(selection *s)
{
    for (int32_t i = 0; i < s->ndrafts; i++) {
        for (int j = 0; j < 3; j++) {
            int32_t slot = slot_read(s, &s->drafts[i], j);
            /* slots index arrays of the caller, so a wrong one must not pass */
            if (!kv_assert(slot <= PROG_MAX_SLOT, "slot %d of a program is above %d", slot,
                           PROG_MAX_SLOT))
                continue;
            if (slot >= s->nslots) {
                memset(s->read + s->nslots, -1, sizeof *s->read * (size_t)(slot + 1 - s->nslots));
                s->nslots = slot + 1;
            }
            if (slot >= 0)
                s->read[slot] = i;
        }
    }
}

/* Writes st as a part of instruction i, if its value is in the array's own type and nothing reads
 * the old contents afterwards. */
static bool store_at_once(selection *s, const node_store *st, int32_t i)
{
    draft *d = &s->drafts[i];
    bool fits = d->slot < 0 && st->dtype == prog_dtype((prog_type)s->nodes[st->value].type) &&
                (st->slot >= s->nslots || s->read[st->slot] <= i);
    if (!fits)
        return false;
    d->slot = st->slot;
    s->where[st->value] = -2 - st->slot;
    return true;
}

/* Writes st behind everything else. */
static void store_late(selection *s, const node_store *st)
{
    const node *n = &s->nodes[st->value];
    s->drafts[s->ndrafts++] = (draft){.node = -1,
                                      .kid = {st->value, -1, -1},
                                      .slot = st->slot,
                                      .kind = INST_CONVERT,
                                      .type = n->type,
                                      .to = (uint8_t)st->dtype,
                                      .from = (uint8_t)prog_dtype((prog_type)n->type)};
}

static void make_stores(selection *s)
{
    int32_t ninner = s->ndrafts;
    for (int64_t k = 0; k < s->b->nstores; k++) {
        const node_store *st = &s->b->stores[k];
        if (is_idle(s, st))
            continue;
        int32_t i = 0;
        while (i < ninner && s->drafts[i].node != st->value)
            i++;
        if (i == ninner || !store_at_once(s, st, i))
            store_late(s, st);
    }
}

/* ---- Places ---------------------------------------------------------------------------------- */

static void release_operands(selection *s, int32_t i)
{
    const draft *d = &s->drafts[i];
    for (int j = 0; j < 3; j++) {
        int32_t x = d->kid[j];
        bool again = (j > 0 && x == d->kid[0]) || (j > 1 && x == d->kid[1]);
        if (x >= 0 && !again && x != d->node && s->last[x] == i && s->where[x] >= s->nfills)
            s->free_regs[s->nfree++] = s->where[x];
    }
}

/* A loop may write over its last-used operands; a conversion must not. */
static void assign_registers(selection *s)
{
    /* registers for constants that stand where a loop wants an array */
    for (int32_t i = 0; i < s->ndrafts; i++) {
        for (int j = 0; j < 3; j++) {
            int32_t x = s->drafts[i].kid[j];
            if (x >= 0 && s->nodes[x].op == NODE_CONST && s->where[x] == -1)
                s->where[x] = s->nfills++;
            if (x >= 0)
                s->last[x] = i;
        }
    }
    s->nregs = s->nfills;
    for (int32_t i = 0; i < s->ndrafts; i++) {
        draft *d = &s->drafts[i];
        if (d->kind != INST_CONVERT)
            release_operands(s, i);
        if (d->slot < 0)
            s->where[d->node] = s->nfree ? s->free_regs[--s->nfree] : s->nregs++;
        if (d->kind == INST_CONVERT)
            release_operands(s, i);
    }
}

/* ---- The program ----------------------------------------------------------------------------- */

static int16_t place_of(const selection *s, const draft *d, int j)
{
    if (d->kid[j] < 0)
        return 0;
    int32_t slot = slot_read(s, d, j);
    int32_t where = s->where[d->kid[j]];
    if (slot < 0 && where < -1)
        slot = -2 - where;
    return (int16_t)(slot >= 0 ? s->nregs + slot : where);
}

void prog_fill(const prog *p, const prog_number *values, uint64_t *pool)
{
    memcpy(pool, p->pool, (size_t)p->npool * sizeof *pool);
    for (const prog_patch *x = p->patches; x < p->patches + p->npatches; x++)
        prog_number_put(pool + x->word, (prog_type)p->pool_types[x->word], values[x->number]);
}

/* The constants of a program that is being written. */
typedef struct pool_writer {
    uint64_t *pool;
    uint8_t *types;
    prog_patch *patches;
} pool_writer;

/* Puts a constant at a word, or 1 if there is none. */
static void put_constant(const selection *s, prog *p, pool_writer *w, int word, int type, int32_t x)
{
    static const prog_number one = {.number = 1};
    const node *n = x < 0 ? NULL : &s->nodes[x];
    w->pool[word] = 0;
    w->types[word] = (uint8_t)type;
    prog_number_put(&w->pool[word], (prog_type)type, n ? n->k : one);
    if (n && n->number)
        w->patches[p->npatches++] = (prog_patch){(int16_t)word, n->number};
}

static void put_insts(const selection *s, prog *p, inst *out, pool_writer *w)
{
    p->npool = s->nfills;
    for (int32_t i = 0; i < (int32_t)s->b->nnodes; i++) {
        const node *n = &s->nodes[i];
        int16_t at = (int16_t)s->where[i];
        if (n->op != NODE_CONST || at < 0)
            continue;
        out[at] = (inst){.kind = INST_FILL, .type = n->type, .dst = at};
        put_constant(s, p, w, at, n->type, i);
    }
    for (int32_t i = 0; i < s->ndrafts; i++) {
        const draft *d = &s->drafts[i];
        inst *in = &out[s->nfills + i];
        *in = (inst){.kind = d->kind,
                     .type = d->type,
                     .to = d->to,
                     .from = d->from,
                     .a = place_of(s, d, 0),
                     .b = place_of(s, d, 1),
                     .c = place_of(s, d, 2)};
        in->dst = (int16_t)(d->slot >= 0 ? s->nregs + d->slot : s->where[d->node]);
        p->narrows |= d->kind == INST_NARROW;
        if (d->kind != INST_KERNEL && d->kind != INST_SCALED)
            continue;
        in->op = d->op;
        in->run = p->kernels->run[d->type][d->op];
        if (d->kind == INST_KERNEL)
            continue;
        in->run = p->kernels->scaled[d->type][d->op];
        in->k = (int16_t)p->npool;
        for (int j = 0; j < 2; j++) {
            in->factors |= (d->factor[j] >= 0) << j;
            put_constant(s, p, w, p->npool++, d->type, d->factor[j]);
        }
    }
}

static int put_program(selection *s, prog **out, kv_err *e)
{
    int64_t ninsts = s->nfills + s->ndrafts, npool = s->nfills + 2 * s->nscaled;
    int64_t npatches = s->b->numbers ? npool : 0;
    int32_t width = 4; /* of the widest number that a register holds */
    bool numbers = false;
    /* the late stores read and write more arrays */
    for (int32_t i = 0; i < s->ndrafts; i++) {
        const draft *d = &s->drafts[i];
        width = d->type != PROG_F32 ? 8 : width;
        int32_t from = slot_read(s, d, 0), to = d->slot;
        s->nslots = from >= s->nslots ? from + 1 : s->nslots;
        s->nslots = to >= s->nslots ? to + 1 : s->nslots;
    }
    kv_assert(s->nslots <= PROG_MAX_SLOT + 1 && s->nregs + s->nslots <= INT16_MAX &&
                  npool <= INT16_MAX,
              "a program has %d registers and %d arrays, too many to count in 16 bits", s->nregs,
              s->nslots);
    int64_t bytes = (int64_t)sizeof(prog) + ninsts * (int64_t)sizeof(inst) + npool * 9 +
                    s->nslots * (int64_t)sizeof(int64_t) + npatches * (int64_t)sizeof(prog_patch);
    prog *p = mem_alloc(bytes, 1, e);
    if (!p)
        return KV_E_MEMORY;
    inst *insts = (inst *)(p + 1);
    uint64_t *pool = (uint64_t *)(insts + ninsts);
    int64_t *slot_bytes = (int64_t *)(pool + npool);
    prog_patch *patches = (prog_patch *)(slot_bytes + s->nslots);
    uint8_t *types = (uint8_t *)(patches + npatches);
    *p = (prog){.kernels = s->b->kernels,
                .ninsts = (int32_t)ninsts,
                .nregs = s->nregs,
                .nfills = s->nfills,
                .nslots = s->nslots,
                .block = PROG_REG_BYTES / width,
                .reg_bytes = PROG_REG_BYTES,
                .insts = insts,
                .pool = pool,
                .pool_types = types,
                .patches = patches,
                .slot_bytes = slot_bytes};
    put_insts(s, p, insts, &(pool_writer){pool, types, patches});
    memset(slot_bytes, 0, sizeof *slot_bytes * (size_t)s->nslots);
    for (int64_t i = 0; i < s->b->nnodes; i++) {
        const node *n = &s->nodes[i];
        numbers |= n->op == NODE_LOAD && n->kid[1] == 1;
        if (n->op == NODE_LOAD && n->kid[0] < s->nslots)
            slot_bytes[n->kid[0]] = n->kid[1] == 1 ? 0 : kv_dtype_bytes((kv_dtype)n->dtype);
    }
    for (int64_t i = 0; i < s->b->nstores; i++)
        if (s->b->stores[i].slot < s->nslots)
            slot_bytes[s->b->stores[i].slot] = kv_dtype_bytes(s->b->stores[i].dtype);
    const rule_loop *loop = prog_whole(p);
    *(loop && loop->packs ? &p->packed : &p->whole) = loop;
    p->single = p->ninsts == 1 && p->nregs == 0 && !p->narrows && !numbers;
    *out = p;
    return KV_OK;
}

int prog_finish(prog_builder *b, prog **out, kv_err *e)
{
    if (b->failed == KV_E_MEMORY)
        return kv_err_set(e, KV_E_MEMORY, "out of memory for a program");
    if (b->failed)
        return kv_err_set(e, KV_E_VALUE, "more than %d operations are too many for one program",
                          NODES_MAX);
    selection s;
    size_t n = (size_t)(b->nnodes + b->nstores);
    s.b = b;
    s.nodes = b->nodes;
    s.ndrafts = s.nscaled = s.nregs = s.nfills = s.nslots = s.nfree = 0;
    s.drafts = arena_alloc(&b->memory, n * sizeof *s.drafts, e);
    s.where = s.drafts ? arena_alloc(&b->memory, 3 * n * sizeof *s.where, e) : NULL;
    if (!s.where)
        return KV_E_MEMORY;
    s.last = s.where + n;
    s.free_regs = s.where + 2 * n;
    memset(s.where, -1, n * sizeof *s.where);
    count_uses(&s);
    make_drafts(&s);
    note_slots(&s);
    make_stores(&s);
    assign_registers(&s);
    int rc = put_program(&s, out, e);
    kv_assert(s.ndrafts <= b->nnodes + b->nstores && s.nfree <= s.nregs - s.nfills,
              "%lld nodes make %d instructions, %d of %d registers are free", (long long)b->nnodes,
              s.ndrafts, s.nfree, s.nregs);
    return rc;
}
