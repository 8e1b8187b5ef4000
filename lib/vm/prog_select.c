/* Programs, second half: nodes become instructions, their results get places.
 *
 * Tiling. From the last node to the first, each node that is needed becomes one instruction, which
 * swallows operands that no other node needs when a fused loop exists for the shape: w - lr*g is
 * one loop, not two.
 *
 * A fused loop computes each written operation in the written order; factors and signs are folded
 * only where that changes no bit: x - k*y is x + (-k)*y, and 1*x is x, but x - (y + z) is not
 * x + ((-y) + (-z)), which differs in the sign of zeros.
 *
 * Places. A result lives in a register of one block. When it is stored, and no later instruction
 * reads the old contents of the array, it is written to the array at once, and later instructions
 * read it there. All other stores come last. Arrays of a type that needs no conversion are operands
 * as they are, and so are those of bfloat16 where a loop reads them; nothing is copied.
 *
 * Worked example: stored = stored - 0.1*input, w = stored*stored (arrays 0, 1, 2, all float32)
 *     a0 = a0*1 + a1*-0.1
 *     a2 = a0 * a0
 */
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "vm/prog.h"

/* ---- Loops: tiles cover the nodes of a program, one for each instruction -----------------------
 */

/* A constant of a tile: a literal, or a number of the builder or minus it. */
typedef struct tile_constant {
    prog_number k;
    int16_t number;
    bool negated; /* until make_tile has found the number that this is */
} tile_constant;

/* An instruction whose operands are nodes. */
typedef struct tile {
    int32_t node;   /* whose value it gives; -1 for a store behind the others */
    int32_t kid[3]; /* -1: unused */
    int32_t slot;   /* the array it writes, or -1: a register */
    uint16_t kernel;
    uint8_t kind, type, to, from, narrow;
    bool constants; /* the loop has some */
    tile_constant k[KERNEL_CONSTANTS];
} tile;

static bool is_const(const node *nodes, int32_t x)
{
    return nodes[x].op == NODE_CONST;
}

static tile_constant number(const node *nodes, int32_t x)
{
    return (tile_constant){nodes[x].k, nodes[x].number, false};
}

static tile_constant literal(double k)
{
    return (tile_constant){.k.number = k};
}

/* Returns true if the tile being made may swallow x: an operation that only this tile needs. */
static bool swallows(const node *nodes, int32_t x, int op)
{
    return nodes[x].uses == 1 && nodes[x].op == op;
}

/* An operand of a loop, and the constant that the loop has beside it: most often v times k. Either
 * may stand by itself. */
typedef struct term {
    int32_t v; /* -1: none */
    tile_constant k;
} term;

static const term nothing = {.v = -1};

static term bare(int32_t x)
{
    return (term){.v = x};
}

static term constant(const node *nodes, int32_t x)
{
    return (term){-1, number(nodes, x)};
}

/* x with its constant times 1 or -1. */
static term times(term x, double sign)
{
    x.k.k.number *= sign;
    x.k.negated = x.k.number && x.k.negated != (sign < 0);
    return x;
}

static term term_of(const node *nodes, int32_t x)
{
    const node *n = &nodes[x];
    if (swallows(nodes, x, PROG_MUL) && is_const(nodes, n->kid[1]))
        return (term){n->kid[0], number(nodes, n->kid[1])};
    if (swallows(nodes, x, PROG_NEG))
        return (term){n->kid[0], literal(-1)};
    return (term){x, literal(1)};
}

static void set_kernel(tile *t, int kernel, int32_t a, int32_t b, int32_t c)
{
    t->kernel = (uint16_t)kernel;
    t->kid[0] = a;
    t->kid[1] = b;
    t->kid[2] = c;
}

/* A loop with constants: term i is operand i and constant i. */
static void set_terms(tile *t, int kernel, term a, term b, term c)
{
    set_kernel(t, kernel, a.v, b.v, c.v);
    t->constants = true;
    t->k[0] = a.k;
    t->k[1] = b.k;
    t->k[2] = c.k;
}

/* sqrt(v + k) + out; a number that is not written is -0. */
typedef struct root {
    term in, out;
} root;

/* Returns true if x is such a root; its inner operations are swallowed. */
static bool root_of(const node *nodes, int32_t x, root *r)
{
    const node *n = &nodes[x];
    r->out = (term){-1, literal(-0.0)};
    if (n->op == PROG_ADD && is_const(nodes, n->kid[1]) && swallows(nodes, n->kid[0], PROG_SQRT)) {
        r->out = constant(nodes, n->kid[1]);
        n = &nodes[n->kid[0]];
    }
    if (n->op != PROG_SQRT)
        return false;
    r->in = (term){n->kid[0], literal(-0.0)};
    n = &nodes[r->in.v];
    if (swallows(nodes, r->in.v, PROG_ADD) && is_const(nodes, n->kid[1]))
        r->in = (term){n->kid[0], number(nodes, n->kid[1])};
    return true;
}

/* ±x*y or ±x/y as a swallowed product of arrays: (b*k)*c, (b*k)/c. */
static bool match_product(const node *nodes, int32_t x, int *kernel, term *b, int32_t *c)
{
    const node *n = &nodes[x];
    bool mul = swallows(nodes, x, PROG_MUL), div = swallows(nodes, x, PROG_DIV);
    if ((!mul && !div) || is_const(nodes, n->kid[0]) || is_const(nodes, n->kid[1]))
        return false;
    *kernel = mul ? KERNEL_MULADD : KERNEL_DIVADD;
    *b = term_of(nodes, n->kid[0]);
    *c = n->kid[1];
    if (mul && b->v == n->kid[0]) {
        *b = term_of(nodes, n->kid[1]);
        *c = n->kid[0];
    }
    return true;
}

/* A swallowed sum of two arrays. */
static bool match_sum(const node *nodes, int32_t x, term *a, term *b)
{
    const node *n = &nodes[x];
    bool sub = swallows(nodes, x, PROG_SUB);
    if ((!sub && !swallows(nodes, x, PROG_ADD)) || is_const(nodes, n->kid[0]) ||
        is_const(nodes, n->kid[1]))
        return false;
    *a = term_of(nodes, n->kid[0]);
    *b = times(term_of(nodes, n->kid[1]), sub ? -1 : 1);
    return true;
}

/* a plus the product of b and c, or plus their quotient, whose divisor may be a root that only it
 * needs. */
static void set_product(const node *nodes, tile *t, int kernel, term a, term b, int32_t c)
{
    root r;
    set_terms(t, kernel, a, b, bare(c));
    if (kernel != KERNEL_DIVADD || nodes[c].uses != 1 || !root_of(nodes, c, &r))
        return;
    set_terms(t, KERNEL_ROOTDIVADD, a, b, r.in);
    t->k[3] = r.out.k;
}

/* x + sign*y of arrays */
static void match_add_arrays(const node *nodes, tile *t, int32_t x, int32_t y, double sign)
{
    int kernel;
    term a = term_of(nodes, x), b = times(term_of(nodes, y), sign), p, q;
    int32_t c;
    if (match_product(nodes, y, &kernel, &p, &c))
        set_product(nodes, t, kernel, a, times(p, sign), c);
    else if (match_product(nodes, x, &kernel, &p, &c))
        set_product(nodes, t, kernel, b, p, c);
    else if (match_sum(nodes, x, &p, &q))
        set_terms(t, KERNEL_LIN3, p, q, b);
    else if (sign == 1 && match_sum(nodes, y, &p, &q))
        set_terms(t, KERNEL_LIN3, p, q, a);
    else if (a.v != x || b.v != y)
        set_terms(t, KERNEL_LIN2, a, b, nothing);
}

/* x + y or x - y */
static void match_add(const node *nodes, tile *t, int32_t x, int32_t y, double sign)
{
    if (is_const(nodes, y))
        set_terms(t, KERNEL_LIN1, term_of(nodes, x), times(constant(nodes, y), sign), nothing);
    else if (is_const(nodes, x))
        set_terms(t, KERNEL_LIN1, times(term_of(nodes, y), sign), constant(nodes, x), nothing);
    else
        match_add_arrays(nodes, t, x, y, sign);
}

static void set_constant(const node *nodes, tile *t, int kernel, int32_t x, int32_t k)
{
    set_terms(t, kernel, (term){x, number(nodes, k)}, nothing, nothing);
}

static void match_mul(const node *nodes, tile *t, int32_t x, int32_t y)
{
    term a = term_of(nodes, x), b = term_of(nodes, y);
    if (is_const(nodes, y))
        set_terms(t, KERNEL_LIN1, (term){x, number(nodes, y)}, (term){-1, literal(-0.0)}, nothing);
    else if (a.v != x)
        set_terms(t, KERNEL_SCALEMUL, a, bare(y), nothing);
    else if (b.v != y)
        set_terms(t, KERNEL_SCALEMUL, b, bare(x), nothing);
}

static void match_div(const node *nodes, tile *t, int32_t x, int32_t y)
{
    term a = term_of(nodes, x);
    root r;
    if (is_const(nodes, y))
        set_constant(nodes, t, KERNEL_DIVK, x, y);
    else if (is_const(nodes, x))
        set_constant(nodes, t, KERNEL_KDIV, y, x);
    else if (nodes[y].uses == 1 && root_of(nodes, y, &r))
        set_terms(t, KERNEL_ROOTDIV, a, r.in, r.out);
    else if (a.v != x)
        set_terms(t, KERNEL_SCALEDIV, a, bare(y), nothing);
}

static void match_clip(const node *nodes, tile *t, const node *n)
{
    bool whole = n->type == PROG_I64;
    if (!is_const(nodes, n->kid[1]) || !is_const(nodes, n->kid[2]))
        return;
    term a = whole ? bare(n->kid[0]) : term_of(nodes, n->kid[0]);
    set_terms(t, whole ? KERNEL_CLIPKI : KERNEL_CLIPK, (term){a.v, number(nodes, n->kid[1])},
              constant(nodes, n->kid[2]), (term){-1, a.k});
}

/* min and max take the right one of two zeros, so those do not change places, nor what
 * may be one. */
static void match_extreme(const node *nodes, tile *t, const node *n)
{
    int kernel = n->op == PROG_MIN ? KERNEL_MINK : KERNEL_MAXK;
    if (is_const(nodes, n->kid[1]))
        set_constant(nodes, t, kernel, n->kid[0], n->kid[1]);
    else if (is_const(nodes, n->kid[0]) && !nodes[n->kid[0]].number &&
             (n->type == PROG_I64 || nodes[n->kid[0]].k.number != 0))
        set_constant(nodes, t, kernel, n->kid[1], n->kid[0]);
}

static void match_compare(const node *nodes, tile *t, const node *n)
{
    const int of_constant = KERNEL_EQK - PROG_EQ;
    if (is_const(nodes, n->kid[1]))
        set_constant(nodes, t, of_constant + n->op, n->kid[0], n->kid[1]);
    else if (is_const(nodes, n->kid[0]))
        set_constant(nodes, t, of_constant + prog_op_mirrored((prog_op)n->op), n->kid[1],
                     n->kid[0]);
}

static void match_where(const node *nodes, tile *t, const node *n)
{
    bool yes = is_const(nodes, n->kid[1]), no = is_const(nodes, n->kid[2]);
    term condition = {n->kid[0], number(nodes, n->kid[yes ? 1 : 2])};
    if (yes && no)
        set_terms(t, KERNEL_WHERE_KK, condition, constant(nodes, n->kid[2]), nothing);
    else if (yes || no)
        set_terms(t, yes ? KERNEL_WHERE_KV : KERNEL_WHERE_VK, condition,
                  bare(n->kid[yes ? 2 : 1]), nothing);
}

static void match_float(const node *nodes, tile *t, int32_t i)
{
    const node *n = &nodes[i];
    root r;
    if (root_of(nodes, i, &r)) {
        if (n->op == PROG_ADD || r.in.v != n->kid[0])
            set_terms(t, KERNEL_ROOT, r.in, r.out, nothing);
    } else if (n->op == PROG_ADD || n->op == PROG_SUB) {
        match_add(nodes, t, n->kid[0], n->kid[1], n->op == PROG_ADD ? 1 : -1);
    } else if (n->op == PROG_MUL) {
        match_mul(nodes, t, n->kid[0], n->kid[1]);
    } else if (n->op == PROG_DIV) {
        match_div(nodes, t, n->kid[0], n->kid[1]);
    }
}

static void match(const prog_builder *b, tile *t, int32_t i);

/* A float32 that is rounded from a binary64 which only it needs, of float32 arrays: one wide loop
 * and no arrays of binary64. */
static bool match_wide(const prog_builder *b, tile *t, int32_t i)
{
    const node *nodes = b->nodes;
    int32_t x = nodes[i].kid[0];
    const node *n = &nodes[x];
    if (nodes[i].type != PROG_F32 || n->type != PROG_F64 || n->uses != 1 || n->op >= PROG_NOPS)
        return false;
    tile wide;
    match(b, &wide, x);
    if (wide.kind != INST_KERNEL || !b->kernels->run[KERNEL_WIDE][wide.kernel])
        return false;
    for (int j = 0; j < 3; j++) {
        const node *kid = wide.kid[j] >= 0 ? &nodes[wide.kid[j]] : NULL;
        if (!kid)
            continue;
        if (kid->op != NODE_CAST || nodes[kid->kid[0]].type != PROG_F32)
            return false;
        wide.kid[j] = kid->kid[0];
    }
    *t = wide;
    t->node = i;
    t->type = KERNEL_WIDE;
    return true;
}

/* First the plain loop, then a better one if there is one. */
static void match(const prog_builder *b, tile *t, int32_t i)
{
    const node *nodes = b->nodes, *n = &nodes[i];
    *t = (tile){.node = i, .kid = {-1, -1, -1}, .slot = -1, .kind = INST_KERNEL, .type = n->type};
    set_kernel(t, n->op, n->kid[0], n->kid[1], n->kid[2]);
    if (n->op == NODE_LOAD) {
        bool copied = n->dtype == prog_dtype((prog_type)n->type);
        set_kernel(t, KERNEL_COPY, i, -1, -1);
        t->kind = copied ? INST_KERNEL : INST_CONVERT;
        t->from = n->dtype;
        t->to = (uint8_t)prog_dtype((prog_type)n->type);
    } else if (n->op == NODE_CAST && match_wide(b, t, i)) {
        return;
    } else if (n->op == NODE_CAST) {
        t->kind = INST_CONVERT;
        t->from = (uint8_t)prog_dtype((prog_type)nodes[n->kid[0]].type);
        t->to = (uint8_t)prog_dtype((prog_type)n->type);
    } else if (n->op == NODE_NARROW) {
        t->kind = INST_NARROW;
        t->from = (uint8_t)prog_dtype((prog_type)n->type);
        t->to = n->dtype;
    } else if (n->op == PROG_CLIP) {
        match_clip(nodes, t, n);
    } else if (n->op == PROG_MIN || n->op == PROG_MAX) {
        match_extreme(nodes, t, n);
    } else if (n->op >= PROG_EQ && n->op <= PROG_GE) {
        match_compare(nodes, t, n);
    } else if (n->op == PROG_WHERE) {
        match_where(nodes, t, n);
    } else if (n->type == PROG_I64) {
        if (n->op == PROG_ADD && is_const(nodes, n->kid[1]))
            set_constant(nodes, t, KERNEL_ADDK, n->kid[0], n->kid[1]);
        else if (n->op == PROG_MUL && is_const(nodes, n->kid[1]))
            set_constant(nodes, t, KERNEL_MULK, n->kid[0], n->kid[1]);
        else if (n->op == PROG_SUB && is_const(nodes, n->kid[0]))
            set_constant(nodes, t, KERNEL_KSUB, n->kid[1], n->kid[0]);
    } else {
        match_float(nodes, t, i);
    }
}

/* Makes the tile for node i, whose uses have been counted: the loop that computes it, which
 * swallows operands that no other node needs where a fused loop exists for the shape. The tile
 * writes a register; its operands are the nodes that it does not swallow. */
static void make_tile(const prog_builder *b, tile *t, int32_t i)
{
    match(b, t, i);
    prog_type type = t->type == KERNEL_WIDE ? PROG_F64 : (prog_type)t->type;
    for (int k = 0; k < KERNEL_CONSTANTS; k++)
        if (t->k[k].negated)
            t->k[k] = (tile_constant){t->k[k].k, prog_negated(b, t->k[k].number, type), false};
}

/* ---- The selection --------------------------------------------------------------------------- */

enum {
    NODE_NEEDED = 1, /* some instruction reads it or it is stored */
    NODE_COPIED = 2  /* a load whose array is overwritten before its last use */
};

#define OWN_TILES 96

typedef struct selection {
    prog_builder *b;
    node *nodes;
    tile *tiles;
    int32_t *where; /* of each node: a register, -1 for none, or -2 - slot */
    int32_t *last;  /* of each node: the last tile that reads it */
    int32_t *free_regs;
    int32_t ntiles, nregs, nfills, nslots, nfree;
    /* Of each slot: the last tile that reads what it held before. */
    int32_t read[PROG_MAX_SLOT + 1];
    void *memory; /* of the four lists, when own is too small */
    tile own[OWN_TILES];
    int32_t own_lists[3 * OWN_TILES];
} selection;

/* ---- Uses of nodes --------------------------------------------------------------------------- */

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

/* ---- Tiles ----------------------------------------------------------------------------------- */

static bool is_narrow(const tile *t, int j)
{
    return t->narrow >> j & 1;
}

static void make_tiles(selection *s)
{
    for (int64_t i = s->b->nnodes - 1; i >= 0; i--) {
        const node *n = &s->nodes[i];
        if (!(n->flags & NODE_NEEDED) || n->op == NODE_CONST || is_direct(n))
            continue;
        tile *t = &s->tiles[s->ntiles++];
        make_tile(s->b, t, (int32_t)i);
        /* the operands that are arrays of bfloat16, as bits, if the loop reads them so */
        int which = 0;
        for (int j = 0; j < 3 && t->kind == INST_KERNEL && t->type == PROG_F32; j++) {
            const node *kid = t->kid[j] >= 0 ? &s->nodes[t->kid[j]] : NULL;
            if (kid && kid->op == NODE_LOAD && kid->dtype == KV_BFLOAT16 &&
                !(kid->flags & NODE_COPIED))
                which |= 1 << j;
        }
        t->narrow = s->b->kernels->narrow(t->kernel, which) ? (uint8_t)which : 0;
        for (int j = 0; j < 3; j++)
            if (t->kid[j] >= 0 && !is_narrow(t, j))
                s->nodes[t->kid[j]].flags |= NODE_NEEDED;
    }
    for (int32_t i = 0, j = s->ntiles - 1; i < j; i++, j--) {
        tile t = s->tiles[i];
        s->tiles[i] = s->tiles[j];
        s->tiles[j] = t;
    }
}

/* The slot that tile t reads through operand j, or -1. */
static int32_t slot_read(const selection *s, const tile *t, int j)
{
    if (t->kid[j] < 0)
        return -1;
    const node *n = &s->nodes[t->kid[j]];
    /* the tile of a load reads the array, the others what it gave */
    return is_direct(n) || is_narrow(t, j) || t->kid[j] == t->node ? n->kid[0] : -1;
}

static void note_slots(selection *s)
{
    for (int32_t i = 0; i < s->ntiles; i++) {
        for (int j = 0; j < 3; j++) {
            int32_t slot = slot_read(s, &s->tiles[i], j);
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

/* Writes st as a part of tile i, if its value is in the array's own type and nothing reads the old
 * contents afterwards. */
static bool store_at_once(selection *s, const node_store *st, int32_t i)
{
    tile *t = &s->tiles[i];
    bool fits = t->slot < 0 && st->dtype == prog_dtype((prog_type)s->nodes[st->value].type) &&
                (st->slot >= s->nslots || s->read[st->slot] <= i);
    if (!fits)
        return false;
    t->slot = st->slot;
    s->where[st->value] = -2 - st->slot;
    return true;
}

/* Writes st behind everything else. */
static void store_late(selection *s, const node_store *st)
{
    const node *n = &s->nodes[st->value];
    kv_dtype held = prog_dtype((prog_type)n->type);
    tile *t = &s->tiles[s->ntiles++];
    *t = (tile){.node = -1,
                .kid = {st->value, -1, -1},
                .slot = st->slot,
                .type = n->type,
                .kernel = KERNEL_COPY,
                .from = (uint8_t)held,
                .to = (uint8_t)st->dtype,
                .kind = held == st->dtype ? INST_KERNEL : INST_CONVERT};
    if (n->op == NODE_CONST && held == st->dtype) {
        t->kernel = KERNEL_FILL;
        t->kid[0] = -1;
        t->constants = true;
        t->k[0] = (tile_constant){.k = n->k, .number = n->number};
    }
}

static void make_stores(selection *s)
{
    int32_t ninner = s->ntiles;
    for (int64_t k = 0; k < s->b->nstores; k++) {
        const node_store *st = &s->b->stores[k];
        if (is_idle(s, st))
            continue;
        int32_t i = 0;
        while (i < ninner && s->tiles[i].node != st->value)
            i++;
        if (i == ninner || !store_at_once(s, st, i))
            store_late(s, st);
    }
}

/* ---- Places ---------------------------------------------------------------------------------- */

static void release_operands(selection *s, int32_t i)
{
    const tile *t = &s->tiles[i];
    for (int j = 0; j < 3; j++) {
        int32_t x = t->kid[j];
        bool again = (j > 0 && x == t->kid[0]) || (j > 1 && x == t->kid[1]);
        if (x >= 0 && !again && x != t->node && s->last[x] == i && s->where[x] >= s->nfills)
            s->free_regs[s->nfree++] = s->where[x];
    }
}

/* A loop may write over its last-used operands; a conversion must not. */
static void assign_registers(selection *s)
{
    /* registers for constants that stand where a loop wants an array */
    for (int32_t i = 0; i < s->ntiles; i++) {
        for (int j = 0; j < 3; j++) {
            int32_t x = s->tiles[i].kid[j];
            if (x >= 0 && s->nodes[x].op == NODE_CONST && s->where[x] == -1)
                s->where[x] = s->nfills++;
            if (x >= 0)
                s->last[x] = i;
        }
    }
    s->nregs = s->nfills;
    for (int32_t i = 0; i < s->ntiles; i++) {
        tile *t = &s->tiles[i];
        if (t->kind != INST_CONVERT)
            release_operands(s, i);
        if (t->slot < 0)
            s->where[t->node] = s->nfree ? s->free_regs[--s->nfree] : s->nregs++;
        if (t->kind == INST_CONVERT)
            release_operands(s, i);
    }
}

/* ---- The program ----------------------------------------------------------------------------- */

static int16_t place_of(const selection *s, const tile *t, int j)
{
    if (t->kid[j] < 0)
        return 0;
    int32_t slot = slot_read(s, t, j);
    int32_t where = s->where[t->kid[j]];
    if (slot < 0 && where < -1)
        slot = -2 - where;
    return (int16_t)(slot >= 0 ? s->nregs + slot : where);
}

void prog_fill(const prog_patch *patches, int64_t n, const prog_number *values, uint64_t *pool)
{
    for (int64_t i = 0; i < n; i++) {
        const prog_patch *x = &patches[i];
        const prog_number *k = &values[x->number];
        if (x->type == PROG_F32)
            ((float *)(void *)(pool + x->word))[x->lane] = (float)k->number;
        else
            memcpy(pool + x->word + x->lane, k, sizeof *k);
    }
}

/* The constants of a program that is being written. */
typedef struct pool_writer {
    uint64_t *pool;
    prog_patch *patches;
    int32_t npool, npatches;
} pool_writer;

/* Appends the constants in the tile's type; returns where they begin. */
static uint16_t put_constants(pool_writer *w, int type, const tile_constant *k)
{
    uint16_t at = (uint16_t)w->npool;
    for (int i = 0; i < KERNEL_CONSTANTS; i++) {
        prog_patch here = {at, (uint8_t)i, (uint8_t)type, 0};
        prog_fill(&here, 1, &k[i].k, w->pool);
        here.number = k[i].number;
        if (here.number)
            w->patches[w->npatches++] = here;
    }
    w->npool += type == PROG_F32 ? KERNEL_CONSTANTS / 2 : KERNEL_CONSTANTS;
    return at;
}

static void put_insts(const selection *s, prog *p, inst *out, pool_writer *w)
{
    w->npool = KERNEL_CONSTANTS; /* zeros first, for those without constants */
    memset(w->pool, 0, KERNEL_CONSTANTS * sizeof *w->pool);
    for (int64_t i = 0; i < s->b->nnodes; i++) {
        const node *n = &s->nodes[i];
        if (n->op != NODE_CONST || s->where[i] < 0)
            continue;
        tile_constant k[KERNEL_CONSTANTS] = {{.k = n->k, .number = n->number}};
        out[s->where[i]] = (inst){.run = p->kernels->run[n->type][KERNEL_FILL],
                                  .kernel = KERNEL_FILL,
                                  .kind = INST_KERNEL,
                                  .type = n->type,
                                  .dst = (int16_t)s->where[i],
                                  .k = put_constants(w, n->type, k)};
    }
    for (int32_t i = 0; i < s->ntiles; i++) {
        const tile *t = &s->tiles[i];
        inst *in = &out[s->nfills + i];
        *in = (inst){.kernel = t->kernel,
                     .kind = t->kind,
                     .type = t->type,
                     .to = t->to,
                     .from = t->from,
                     .narrow = t->narrow,
                     .a = place_of(s, t, 0),
                     .b = place_of(s, t, 1),
                     .c = place_of(s, t, 2)};
        in->dst = (int16_t)(t->slot >= 0 ? s->nregs + t->slot : s->where[t->node]);
        if (t->kind == INST_KERNEL)
            in->run = t->narrow ? p->kernels->narrow(t->kernel, t->narrow)
                                : p->kernels->run[t->type][t->kernel];
        if (t->constants)
            in->k = put_constants(w, t->type, t->k);
        p->narrows |= t->kind == INST_NARROW;
    }
    p->npool = w->npool;
    p->npatches = w->npatches;
    kv_assert(p->npool <= KERNEL_CONSTANTS * (p->ninsts + 1) && p->npool <= UINT16_MAX,
              "%d instructions have %d words of constants", p->ninsts, p->npool);
}

static int put_program(selection *s, prog **out, kv_err *e)
{
    int64_t ninsts = s->nfills + s->ntiles, npool = KERNEL_CONSTANTS * (ninsts + 1);
    int64_t npatches = s->b->numbers ? npool : 0;
    int32_t width = 4; /* of the widest number that a register holds */
    bool numbers = false;
    /* the late stores read and write more arrays */
    for (int32_t i = 0; i < s->ntiles; i++) {
        const tile *t = &s->tiles[i];
        width = t->type != PROG_F32 && t->type != KERNEL_WIDE ? 8 : width;
        int32_t from = slot_read(s, t, 0), to = t->slot;
        s->nslots = from >= s->nslots ? from + 1 : s->nslots;
        s->nslots = to >= s->nslots ? to + 1 : s->nslots;
    }
    kv_assert(s->nslots <= PROG_MAX_SLOT + 1 && s->nregs + s->nslots <= INT16_MAX,
              "a program has %d registers and %d arrays, too many to count in 16 bits", s->nregs,
              s->nslots);
    int64_t bytes = (int64_t)sizeof(prog) + ninsts * (int64_t)sizeof(inst) + npool * 8 +
                    s->nslots * (int64_t)sizeof(int64_t) + npatches * (int64_t)sizeof(prog_patch);
    prog *p = mem_alloc(bytes, 1, e);
    if (!p)
        return KV_E_MEMORY;
    inst *insts = (inst *)(p + 1);
    uint64_t *pool = (uint64_t *)(insts + ninsts);
    int64_t *slot_bytes = (int64_t *)(pool + npool);
    prog_patch *patches = (prog_patch *)(slot_bytes + s->nslots);
    *p = (prog){.kernels = s->b->kernels,
                .ninsts = (int32_t)ninsts,
                .nregs = s->nregs,
                .nfills = s->nfills,
                .nslots = s->nslots,
                .block = PROG_REG_BYTES / width,
                .reg_bytes = PROG_REG_BYTES,
                .insts = insts,
                .pool = pool,
                .patches = patches,
                .slot_bytes = slot_bytes};
    put_insts(s, p, insts, &(pool_writer){.pool = pool, .patches = patches});
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

/* Lists for n nodes and as many tiles and stores; inside s when they fit. */
static int make_lists(selection *s, kv_err *e)
{
    int64_t n = s->b->nnodes + s->b->nstores;
    int32_t *lists = s->own_lists;
    s->tiles = s->own;
    s->memory = NULL;
    if (n > OWN_TILES) {
        s->memory = mem_alloc(n, sizeof(tile) + 3 * sizeof(int32_t), e);
        if (!s->memory)
            return KV_E_MEMORY;
        s->tiles = s->memory;
        lists = (int32_t *)(s->tiles + n);
    }
    s->where = lists;
    s->last = lists + n;
    s->free_regs = lists + 2 * n;
    memset(s->where, -1, (size_t)n * sizeof *s->where);
    return KV_OK;
}

int prog_finish(prog_builder *b, prog **out, kv_err *e)
{
    if (b->failed == KV_E_MEMORY)
        return kv_err_set(e, KV_E_MEMORY, "no memory for a program");
    if (b->failed)
        return kv_err_set(e, KV_E_VALUE, "more than %d operations are too many for one program",
                          NODES_MAX);
    selection s;
    s.b = b;
    s.nodes = b->nodes;
    s.ntiles = s.nregs = s.nfills = s.nslots = s.nfree = 0;
    TRY(make_lists(&s, e));
    count_uses(&s);
    make_tiles(&s);
    note_slots(&s);
    make_stores(&s);
    assign_registers(&s);
    int rc = put_program(&s, out, e);
    kv_assert(s.ntiles <= b->nnodes + b->nstores && s.nfree <= s.nregs - s.nfills,
              "%lld nodes make %d instructions, %d of %d registers are free",
              (long long)b->nnodes, s.ntiles, s.nfree, s.nregs);
    mem_free(s.memory);
    return rc;
}
