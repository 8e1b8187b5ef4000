/* Programs, first half: operations become nodes.
 *
 * A node is simplified when it is added: operations of constants are computed by the kernels
 * themselves, so that folding gives the very bits that running would; what changes no bit of any
 * number is left out; a node equal to an earlier one is that one. Every rule below is exact for
 * infinities, subnormals and signs of zero. Of a nan it keeps only that it is one.
 */
#include <math.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "vm/prog.h"

prog_builder *prog_builder_new(kv_err *e)
{
    arena memory = {0};
    prog_builder *b = arena_alloc(&memory, sizeof *b, e);
    if (!b)
        return NULL;
    b->memory = memory;
    b->kernels = kernel_best();
    return b;
}

prog_builder *prog_builder_beside(const prog_builder *b, kv_err *e)
{
    prog_builder *made = prog_builder_new(e);
    if (made)
        made->numbers = b->numbers;
    return made;
}

void prog_builder_free(prog_builder *b)
{
    arena memory = b ? b->memory : (arena){0};
    arena_release(&memory);
}

arena *prog_builder_memory(prog_builder *b)
{
    return &b->memory;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static uint64_t hash_of(const node *x)
{
    uint64_t h = x->op | (uint64_t)x->type << 8 | (uint64_t)x->dtype << 16 |
                 (uint64_t)(uint16_t)x->number << 32;
    h = (h ^ (uint64_t)(uint32_t)x->kid[0]) * 0x9e3779b97f4a7c15u;
    h = (h ^ (uint64_t)(uint32_t)x->kid[1]) * 0x9e3779b97f4a7c15u;
    h = (h ^ (uint64_t)(uint32_t)x->kid[2] ^ (uint64_t)x->k.integer) * 0x9e3779b97f4a7c15u;
    return h >> 32;
}

static bool same_node(const node *x, const node *y)
{
    return x->op == y->op && x->type == y->type && x->dtype == y->dtype && x->number == y->number &&
           memcmp(x->kid, y->kid, sizeof x->kid) == 0 && x->k.integer == y->k.integer;
}

/* The operands of an operation fit, which plans see to; what plans make has an extent
 * of its own. */
static prog_extent extent_of(const prog_builder *b, const node *x)
{
    prog_extent extent = {PROG_ONE, PROG_ONE};
    if (x->op >= NODE_SPREAD)
        return x->extent;
    if (x->op == NODE_LOAD)
        return (prog_extent){PROG_ROWS, PROG_COLUMNS};
    for (int i = 0; i < 3 && x->kid[i] >= 0 && !(extent.rows && extent.columns); i++) {
        prog_extent kid = b->nodes[x->kid[i]].extent;
        extent.rows = kid.rows ? kid.rows : extent.rows;
        extent.columns = kid.columns ? kid.columns : extent.columns;
    }
    return extent;
}

/* The number of a node equal to x: an old one, or x added. Very long programs are not searched. */
prog_value prog_intern(prog_builder *b, const node *x)
{
    uint64_t at = hash_of(x);
    bool few = b->nnodes <= BUILDER_HASHES / 2;
    for (; few && b->hashes[at % BUILDER_HASHES]; at++)
        if (same_node(&b->nodes[b->hashes[at % BUILDER_HASHES] - 1], x))
            return b->hashes[at % BUILDER_HASHES] - 1;
    if (b->nnodes >= NODES_MAX)
        b->failed = KV_E_VALUE;
    else if (arena_grow(&b->memory, &b->nodes, &b->nodes_cap, b->nnodes, sizeof *x, NULL))
        b->failed = KV_E_MEMORY;
    if (b->failed)
        return -1;
    b->nodes[b->nnodes] = *x;
    b->nodes[b->nnodes].extent = extent_of(b, x);
    if (few)
        b->hashes[at % BUILDER_HASHES] = (int16_t)(b->nnodes + 1);
    return (prog_value)b->nnodes++;
}

prog_type prog_value_type(const prog_builder *b, prog_value x)
{
    return x < 0 ? PROG_F32 : (prog_type)b->nodes[x].type;
}

kv_dtype prog_value_dtype(const prog_builder *b, prog_value x)
{
    if (x >= 0 && b->nodes[x].op == NODE_LOAD)
        return (kv_dtype)b->nodes[x].dtype;
    return prog_dtype(prog_value_type(b, x));
}

bool prog_value_known(const prog_builder *b, prog_value x, double *number, int64_t *integer)
{
    if (x < 0 || b->nodes[x].op != NODE_CONST)
        return false;
    if (b->nodes[x].type == PROG_I64)
        *integer = b->nodes[x].k.integer;
    else
        *number = b->nodes[x].k.number;
    return true;
}

prog_value prog_given(prog_builder *b, int16_t number, prog_type type, prog_number k)
{
    node x = {.op = NODE_CONST,
              .type = (uint8_t)type,
              .kid = {-1, -1, -1},
              .number = number,
              .k = k};
    if (type != PROG_I64 && isnan(k.number))
        x.k.number = NAN; /* one nan, so that equal constants are equal nodes */
    return prog_intern(b, &x);
}

prog_value prog_const_like(prog_builder *b, const node *n)
{
    kv_assert(!n->number || b->numbers, "number %d becomes the literal that it is today",
              n->number);
    return prog_given(b, n->number, (prog_type)n->type, n->k);
}

/* The number that a constant is; a literal becomes one. */
static int16_t number_of(prog_builder *b, prog_value x)
{
    const node *n = &b->nodes[x];
    prog_entry made = {.how = NUMBER_LITERAL, .type = n->type, .k = n->k};
    return n->number ? n->number : prog_numbers_add(b->numbers, &made);
}

/* A constant that is computed of n others: a literal of literals, else a number. */
static prog_value computed(prog_builder *b, prog_entry made, const prog_value *kid, int n)
{
    prog_number in[3] = {{0}};
    bool varies = false;
    for (int i = 0; i < n; i++) {
        in[i] = b->nodes[kid[i]].k;
        varies |= b->nodes[kid[i]].number != 0;
    }
    prog_number k = prog_numbers_compute(b->kernels, &made, in);
    for (int i = 0; i < n && varies; i++)
        made.kid[i] = number_of(b, kid[i]);
    return prog_given(b, varies ? prog_numbers_add(b->numbers, &made) : 0, (prog_type)made.type, k);
}

prog_value prog_const(prog_builder *b, prog_type type, double x)
{
    if (type == PROG_I64) {
        int64_t i;
        convert_elements(&i, KV_INT64, &x, KV_FLOAT64, 1);
        return prog_const_int(b, type, i);
    }
    return prog_given(b, 0, type, (prog_number){.number = type == PROG_F32 ? (float)x : x});
}

prog_value prog_const_int(prog_builder *b, prog_type type, int64_t x)
{
    prog_number k = {.integer = x};
    if (type != PROG_I64)
        k.number = type == PROG_F32 ? (float)x : (double)x;
    return prog_given(b, 0, type, k);
}

static bool is_const(const prog_builder *b, prog_value x)
{
    return b->nodes[x].op == NODE_CONST;
}

/* A constant whose value may decide the shape of the program: not one that each run brings. */
static bool is_literal(const prog_builder *b, prog_value x)
{
    return is_const(b, x) && !b->nodes[x].number;
}

/* Returns true if x is the literal k, with the same sign of a zero. */
static bool is_number(const prog_builder *b, prog_value x, double k)
{
    const node *n = &b->nodes[x];
    if (!is_literal(b, x) || n->type == PROG_I64)
        return is_literal(b, x) && n->k.integer == (int64_t)k;
    return n->k.number == k && signbit(n->k.number) == signbit(k);
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* Whether a constant is not 0. The program is for numbers that share this answer. */
static bool truth_of(prog_builder *b, prog_value x)
{
    const node *n = &b->nodes[x];
    bool truth = prog_number_truth(n->k, (prog_type)n->type);
    if (n->number)
        prog_numbers_branch(b->numbers, n->number, truth);
    return truth;
}

static prog_value apply2(prog_builder *b, prog_op op, prog_value x, prog_value y)
{
    return prog_apply(b, op, x, y, -1);
}

/* Returns true if x / k has the bits of x * (1 / k): k is a power of two. */
static bool has_exact_inverse(double k, prog_type type)
{
    int exponent;
    double fraction = frexp(k, &exponent);
    int limit = type == PROG_F32 ? 120 : 1000; /* so that 1 / k is a normal number as well */
    return fabs(fraction) == 0.5 && exponent > -limit && exponent < limit;
}

static bool gives_truth(const prog_builder *b, prog_value x)
{
    return b->nodes[x].op >= PROG_EQ && b->nodes[x].op <= PROG_ISNAN;
}

/* Returns true if x op y is x for every x. In a sum of floats y is -0 then: -0 + 0 is 0. */
static bool is_neutral(const prog_builder *b, prog_op op, prog_value y)
{
    bool whole = prog_value_type(b, y) == PROG_I64;
    if (op == PROG_ADD)
        return is_number(b, y, whole ? 0.0 : -0.0);
    if (op == PROG_SUB)
        return is_number(b, y, 0);
    return (op == PROG_MUL || op == PROG_POW || (op == PROG_FLOORDIV && whole)) &&
           is_number(b, y, 1);
}

/* Simpler nodes for x op y, or -1 when there are none. y may be a constant, x not unless y is
 * variable. */
static prog_value simplify_arithmetic(prog_builder *b, prog_op op, prog_value x, prog_value y)
{
    prog_type type = prog_value_type(b, x);
    bool whole = type == PROG_I64, known = y >= 0 && is_literal(b, y);
    double k = known && !whole ? b->nodes[y].k.number : 0;
    const node inner = b->nodes[x];
    if (known && is_neutral(b, op, y))
        return x;
    /* of float32 exact in binary64, so that rounding it once is what x*x does */
    if (op == PROG_POW && known && is_number(b, y, 2) && type != PROG_F64)
        return apply2(b, PROG_MUL, x, x);
    if (op == PROG_NEG && inner.op == PROG_NEG)
        return inner.kid[0];
    if (whole && (op == PROG_FLOOR || op == PROG_CEIL || op == PROG_ROUND))
        return x;
    if (whole && (op == PROG_ISFINITE || op == PROG_ISNAN))
        return prog_const_int(b, PROG_I64, op == PROG_ISFINITE);
    if (whole)
        return op == PROG_MUL && known && is_number(b, y, 0) ? y : -1;
    if (op == PROG_DIV && known && has_exact_inverse(k, type))
        return apply2(b, PROG_MUL, x, prog_const(b, type, 1 / k));
    if (op == PROG_POW && known && k == 0)
        return prog_const(b, type, 1);
    return -1;
}

/* Logic of a constant and choices between equals, for every type. */
static prog_value simplify(prog_builder *b, prog_op op, const prog_value *kid)
{
    prog_type type = prog_value_type(b, kid[0]);
    prog_value x = kid[0], y = kid[1];
    if (op == PROG_NOT)
        return apply2(b, PROG_EQ, x, prog_const(b, type, 0));
    if (op == PROG_NE && gives_truth(b, x) && is_number(b, y, 0))
        return x;
    if ((op == PROG_AND || op == PROG_OR) && is_const(b, y)) {
        bool truth = truth_of(b, y);
        return truth == (op == PROG_AND) ? apply2(b, PROG_NE, x, prog_const(b, type, 0))
                                         : prog_const_int(b, type, truth);
    }
    if ((op == PROG_MIN || op == PROG_MAX) && x == y)
        return x;
    if (op == PROG_WHERE && is_const(b, x))
        return truth_of(b, x) ? kid[1] : kid[2];
    if (op == PROG_WHERE && kid[1] == kid[2])
        return kid[1];
    if (op == PROG_CLIP && type != PROG_I64 && is_number(b, y, -INFINITY) &&
        is_number(b, kid[2], INFINITY))
        return x;
    return simplify_arithmetic(b, op, x, y);
}

static bool commutes(prog_op op)
{
    return op == PROG_ADD || op == PROG_MUL || op == PROG_EQ || op == PROG_NE || op == PROG_AND ||
           op == PROG_OR;
}

prog_value prog_apply(prog_builder *b, prog_op op, prog_value x, prog_value y, prog_value z)
{
    int n = prog_op_arity(op);
    prog_value kid[3] = {x, n > 1 ? y : -1, n > 2 ? z : -1};
    bool known = true;
    for (int i = 0; i < n; i++) {
        if (b->failed || kid[i] < 0)
            return -1;
        if (!kv_assert(prog_value_type(b, kid[i]) == prog_value_type(b, x),
                       "operation %d gets numbers of types %d and %d", op,
                       prog_value_type(b, kid[i]), prog_value_type(b, x)))
            return -1;
        known &= is_const(b, kid[i]);
    }
    prog_type type = prog_value_type(b, x);
    if (known && b->kernels->run[type][op]) {
        /* run by its kernel */
        prog_entry made = {.how = NUMBER_FOLD, .op = (uint8_t)op, .type = b->nodes[kid[0]].type};
        return computed(b, made, kid, prog_op_arity(op));
    }
    /* constants stand right, and of two arrays the older one left */
    if (commutes(op) && (is_const(b, x) || (!is_const(b, y) && y < x))) {
        kid[0] = y;
        kid[1] = x;
    }
    prog_value simpler = simplify(b, op, kid);
    if (simpler >= 0 || b->failed)
        return simpler;
    if (!kv_assert(b->kernels->run[type][op], "no kernel does operation %d on type %d", op, type))
        return -1;
    node made = {.op = (uint8_t)op, .type = (uint8_t)type};
    memcpy(made.kid, kid, sizeof made.kid);
    return prog_intern(b, &made);
}

/* ---- Types ----------------------------------------------------------------------------------- */

prog_value prog_cast(prog_builder *b, prog_type type, prog_value x)
{
    if (b->failed || x < 0)
        return -1;
    const node from = b->nodes[x];
    prog_type was = (prog_type)from.type;
    if (was == type)
        return x;
    if (from.op == NODE_CONST) {
        prog_entry made = {.how = NUMBER_CAST, .type = (uint8_t)type, .from = (uint8_t)was};
        return computed(b, made, &x, 1);
    }
    /* there and back through a wider type */
    if (from.op == NODE_CAST && b->nodes[from.kid[0]].type == type && type == PROG_F32 &&
        was == PROG_F64)
        return from.kid[0];
    node made = {.op = NODE_CAST, .type = (uint8_t)type, .kid = {x, -1, -1}};
    return prog_intern(b, &made);
}

/* Returns true if every possible value of x is one of dtype already, so that rounding is not
 * needed. */
static bool is_narrow(const prog_builder *b, kv_dtype dtype, prog_value x)
{
    const node *n = &b->nodes[x];
    bool wider = dtype == KV_FLOAT64 && n->type == PROG_F32;
    return wider || dtype == prog_dtype((prog_type)n->type) || gives_truth(b, x) ||
           ((n->op == NODE_NARROW || n->op == NODE_LOAD) && n->dtype == dtype);
}

/* x without the last narrowing, where only the bits that dtype keeps will matter. */
static prog_value unwrapped(const prog_builder *b, kv_dtype dtype, prog_value x)
{
    const node *n = &b->nodes[x];
    bool same = n->op == NODE_NARROW && n->dtype == dtype;
    return same ? n->kid[0] : x;
}

/* Sums and products wrap to a dtype of integers alike, whether their operands were wrapped or
 * not. */
static prog_value without_inner_wraps(prog_builder *b, kv_dtype dtype, prog_value x)
{
    node n = b->nodes[x];
    bool ring = n.op == PROG_ADD || n.op == PROG_SUB || n.op == PROG_MUL;
    if (n.type != PROG_I64 || dtype == KV_BOOL || kv_dtype_is_float(dtype) || !ring)
        return x;
    prog_value left = unwrapped(b, dtype, n.kid[0]), right = unwrapped(b, dtype, n.kid[1]);
    return left == n.kid[0] && right == n.kid[1] ? x : apply2(b, (prog_op)n.op, left, right);
}

prog_value prog_narrow(prog_builder *b, kv_dtype dtype, prog_value x)
{
    if (b->failed || x < 0)
        return -1;
    if (is_narrow(b, dtype, x))
        return x;
    prog_type type = prog_value_type(b, x);
    if (is_const(b, x)) {
        prog_entry made = {.how = NUMBER_NARROW, .type = (uint8_t)type, .from = (uint8_t)dtype};
        return computed(b, made, &x, 1);
    }
    if (dtype == KV_BOOL)
        return apply2(b, PROG_NE, x, prog_const(b, type, 0));
    x = without_inner_wraps(b, dtype, x);
    if (x < 0 || is_const(b, x))
        return prog_narrow(b, dtype, x);
    node made = {
        .op = NODE_NARROW, .type = (uint8_t)type, .dtype = (uint8_t)dtype, .kid = {x, -1, -1}};
    return prog_intern(b, &made);
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

prog_value prog_load(prog_builder *b, int slot, kv_dtype dtype, prog_type type)
{
    for (int64_t i = 0; i < b->nstores; i++) {
        if (b->stores[i].slot == slot) {
            return prog_cast(b, type, prog_narrow(b, dtype, b->stores[i].value));
        }
    }
    node made = {
        .op = NODE_LOAD, .type = (uint8_t)type, .dtype = (uint8_t)dtype, .kid = {slot, -1, -1}};
    return b->failed ? -1 : prog_intern(b, &made);
}

prog_value prog_load_number(prog_builder *b, int slot, prog_type type)
{
    node made = {.op = NODE_LOAD,
                 .type = (uint8_t)type,
                 .dtype = (uint8_t)prog_dtype(type),
                 .kid = {slot, 1, -1}};
    return b->failed ? -1 : prog_intern(b, &made);
}

void prog_store(prog_builder *b, int slot, kv_dtype dtype, prog_value x)
{
    if (b->failed || x < 0)
        return;
    /* converting narrows anyway */
    const node *n = &b->nodes[x];
    if (n->op == NODE_NARROW && n->dtype == dtype)
        x = n->kid[0];
    int64_t at = 0;
    while (at < b->nstores && b->stores[at].slot != slot)
        at++;
    if (at == b->nstores) {
        if (arena_grow(&b->memory, &b->stores, &b->stores_cap, b->nstores, sizeof *b->stores,
                       NULL)) {
            b->failed = KV_E_MEMORY;
            return;
        }
        b->nstores++;
    }
    b->stores[at] = (node_store){.slot = slot, .value = x, .dtype = dtype};
}
