/* Tiles: the loop that an instruction runs, by the shape of its nodes.
 *
 * A fused loop computes each written operation in the written order; factors and signs are folded
 * only where that changes no bit: x - k*y is x + (-k)*y, and 1*x is x, but x - (y + z) is not
 * x + ((-y) + (-z)), which differs in the sign of zeros.
 */
#include "vm/prog.h"

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

/* k times 1 or -1 */
static tile_constant times(tile_constant k, double sign)
{
    k.k.number *= sign;
    k.negated = k.number && k.negated != (sign < 0);
    return k;
}

/* Returns true if the tile being made may swallow x: an operation that only this tile needs. */
static bool swallows(const node *nodes, int32_t x, int op)
{
    return nodes[x].uses == 1 && nodes[x].op == op;
}

/* v times k */
typedef struct term {
    int32_t v;
    tile_constant k;
} term;

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

static void set_numbers(tile *t, tile_constant k0, tile_constant k1, tile_constant k2)
{
    t->nk = 3;
    t->k[0] = k0;
    t->k[1] = k1;
    t->k[2] = k2;
}

/* sqrt(v + in) + out; a number that is not written is -0. */
typedef struct root {
    int32_t v;
    tile_constant in, out;
} root;

/* Returns true if x is such a root; its inner operations are swallowed. */
static bool root_of(const node *nodes, int32_t x, root *r)
{
    const node *n = &nodes[x];
    *r = (root){.in = literal(-0.0), .out = literal(-0.0)};
    if (n->op == PROG_ADD && is_const(nodes, n->kid[1]) && swallows(nodes, n->kid[0], PROG_SQRT)) {
        r->out = number(nodes, n->kid[1]);
        n = &nodes[n->kid[0]];
    }
    if (n->op != PROG_SQRT)
        return false;
    r->v = n->kid[0];
    n = &nodes[r->v];
    if (swallows(nodes, r->v, PROG_ADD) && is_const(nodes, n->kid[1])) {
        r->in = number(nodes, n->kid[1]);
        r->v = n->kid[0];
    }
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
    *b = term_of(nodes, n->kid[1]);
    if (sub)
        b->k = times(b->k, -1);
    return true;
}

/* a plus the product of b and c, or plus their quotient, whose divisor may be a root that only it
 * needs. */
static void set_product(const node *nodes, tile *t, int kernel, term a, term b, int32_t c)
{
    root r;
    set_kernel(t, kernel, a.v, b.v, c);
    set_numbers(t, a.k, b.k, literal(0));
    if (kernel != KERNEL_DIVADD || nodes[c].uses != 1 || !root_of(nodes, c, &r))
        return;
    set_kernel(t, KERNEL_ROOTDIVADD, a.v, b.v, r.v);
    set_numbers(t, a.k, b.k, r.in);
    t->k[3] = r.out;
}

/* x + sign*y of arrays */
static void match_add_arrays(const node *nodes, tile *t, int32_t x, int32_t y, double sign)
{
    int kernel;
    term a = term_of(nodes, x), b = term_of(nodes, y), p, q;
    int32_t c;
    if (match_product(nodes, y, &kernel, &p, &c)) {
        p.k = times(p.k, sign);
        set_product(nodes, t, kernel, a, p, c);
    } else if (match_product(nodes, x, &kernel, &p, &c)) {
        b.k = times(b.k, sign);
        set_product(nodes, t, kernel, b, p, c);
    } else if (match_sum(nodes, x, &p, &q)) {
        set_kernel(t, KERNEL_LIN3, p.v, q.v, b.v);
        set_numbers(t, p.k, q.k, times(b.k, sign));
    } else if (sign == 1 && match_sum(nodes, y, &p, &q)) {
        set_kernel(t, KERNEL_LIN3, p.v, q.v, a.v);
        set_numbers(t, p.k, q.k, a.k);
    } else if (a.v != x || b.v != y) {
        set_kernel(t, KERNEL_LIN2, a.v, b.v, -1);
        set_numbers(t, a.k, times(b.k, sign), literal(0));
    }
}

/* x + y or x - y */
static void match_add(const node *nodes, tile *t, int32_t x, int32_t y, double sign)
{
    root r;
    if (is_const(nodes, y) && swallows(nodes, x, PROG_SQRT)) {
        root_of(nodes, x, &r);
        set_kernel(t, KERNEL_ROOT, r.v, -1, -1);
        set_numbers(t, r.in, number(nodes, y), literal(0));
    } else if (is_const(nodes, y)) {
        term a = term_of(nodes, x);
        set_kernel(t, KERNEL_LIN1, a.v, -1, -1);
        set_numbers(t, a.k, times(number(nodes, y), sign), literal(0));
    } else if (is_const(nodes, x)) {
        term b = term_of(nodes, y);
        set_kernel(t, KERNEL_LIN1, b.v, -1, -1);
        set_numbers(t, times(b.k, sign), number(nodes, x), literal(0));
    } else {
        match_add_arrays(nodes, t, x, y, sign);
    }
}

static void match_mul(const node *nodes, tile *t, int32_t x, int32_t y)
{
    if (is_const(nodes, y)) {
        set_kernel(t, KERNEL_LIN1, x, -1, -1);
        set_numbers(t, number(nodes, y), literal(-0.0), literal(0));
        return;
    }
    term a = term_of(nodes, x), b = term_of(nodes, y);
    if (a.v != x) {
        set_kernel(t, KERNEL_SCALEMUL, a.v, y, -1);
        set_numbers(t, a.k, literal(0), literal(0));
    } else if (b.v != y) {
        set_kernel(t, KERNEL_SCALEMUL, b.v, x, -1);
        set_numbers(t, b.k, literal(0), literal(0));
    }
}

static void match_div(const node *nodes, tile *t, int32_t x, int32_t y)
{
    if (is_const(nodes, y)) {
        set_kernel(t, KERNEL_DIVK, x, -1, -1);
        set_numbers(t, number(nodes, y), literal(0), literal(0));
    } else if (is_const(nodes, x)) {
        set_kernel(t, KERNEL_KDIV, y, -1, -1);
        set_numbers(t, number(nodes, x), literal(0), literal(0));
    } else {
        term a = term_of(nodes, x);
        root r;
        if (nodes[y].uses == 1 && root_of(nodes, y, &r)) {
            set_kernel(t, KERNEL_ROOTDIV, a.v, r.v, -1);
            set_numbers(t, a.k, r.in, r.out);
            return;
        }
        if (a.v == x)
            return;
        set_kernel(t, KERNEL_SCALEDIV, a.v, y, -1);
        set_numbers(t, a.k, literal(0), literal(0));
    }
}

static void match_clip(const node *nodes, tile *t, const node *n)
{
    if (!is_const(nodes, n->kid[1]) || !is_const(nodes, n->kid[2]))
        return;
    t->nk = 3;
    t->k[0] = number(nodes, n->kid[1]);
    t->k[1] = number(nodes, n->kid[2]);
    if (n->type == PROG_I64) {
        set_kernel(t, KERNEL_CLIPKI, n->kid[0], -1, -1);
        return;
    }
    term a = term_of(nodes, n->kid[0]);
    t->k[2] = a.k;
    set_kernel(t, KERNEL_CLIPK, a.v, -1, -1);
}

static void set_constant(const node *nodes, tile *t, int kernel, int32_t x, int32_t k)
{
    set_kernel(t, kernel, x, -1, -1);
    t->nk = 1;
    t->k[0] = number(nodes, k);
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
    if (!yes && !no)
        return;
    t->nk = 2;
    t->k[0] = number(nodes, n->kid[yes ? 1 : 2]);
    t->k[1] = number(nodes, n->kid[2]);
    int32_t array = yes ? n->kid[2] : n->kid[1];
    set_kernel(t,
               yes && no ? KERNEL_WHERE_KK
               : yes     ? KERNEL_WHERE_KV
                         : KERNEL_WHERE_VK,
               n->kid[0], yes && no ? -1 : array, -1);
}

static void match_float(const node *nodes, tile *t, int32_t i)
{
    const node *n = &nodes[i];
    root r;
    switch (n->op) {
    case PROG_ADD:
        match_add(nodes, t, n->kid[0], n->kid[1], 1);
        return;
    case PROG_SUB:
        match_add(nodes, t, n->kid[0], n->kid[1], -1);
        return;
    case PROG_MUL:
        match_mul(nodes, t, n->kid[0], n->kid[1]);
        return;
    case PROG_DIV:
        match_div(nodes, t, n->kid[0], n->kid[1]);
        return;
    case PROG_SQRT:
        if (root_of(nodes, i, &r) && r.v != n->kid[0]) {
            set_kernel(t, KERNEL_ROOT, r.v, -1, -1);
            set_numbers(t, r.in, r.out, literal(0));
        }
        return;
    default: /* no fused loop begins with it */
        return;
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

void prog_match(const prog_builder *b, tile *t, int32_t i)
{
    match(b, t, i);
    prog_type type = t->type == KERNEL_WIDE ? PROG_F64 : (prog_type)t->type;
    for (int k = 0; k < KERNEL_CONSTANTS; k++)
        if (t->k[k].negated)
            t->k[k] = (tile_constant){t->k[k].k, prog_negated(b, t->k[k].number, type), false};
}
