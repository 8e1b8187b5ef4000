/* Element-wise expressions: from a syntax tree and its leaves to one program, run once.
 *
 * The walk gives each node a dtype and a shape and adds its operation to the program, followed by a
 * narrowing to that dtype. Leaves become slots; one array that stands in several places is one
 * slot. A leaf is loaded in the type that the operation at hand computes in, so that no conversion
 * happens twice. Subtrees without arrays are computed as host numbers, in binary64.
 */
#include "vm/expr.h"

#include <math.h>
#include <string.h>

#include "array/arrange.h"
#include "array/device.h"
#include "base/mem.h"
#include "base/stop.h"
#include "vm/element.h"
#include "vm/program.h"

/* ---- What belongs to a tree ------------------------------------------------------------------ */

bool expr_is_operator(const ast *node)
{
    if (node->kind == AST_UNARY || node->kind == AST_BINARY)
        return true;
    const element_function *f = element_called(node);
    /* min and max of one array reduce it; a named argument belongs to no element-wise function */
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i]->kind == AST_ARG)
            return false;
    return f && f->op != PROG_NOPS && (f->kind != FN_TWO || node->n == 2);
}

/* ---- The walk -------------------------------------------------------------------------------- */

/* What a node gave. */
typedef struct item {
    bool is_host;
    host number;    /* when is_host */
    kv_dtype dtype; /* else, with what follows */
    int slot;       /* a leaf; -1: an operation's result */
    prog_value v;   /* an operation's result, in the type of its operation */
    int ndim;
    const int64_t *shape; /* borrowed from an array or the memory of the walk */
} item;

typedef struct walk {
    const source *src;
    const expr_leaf *leaves;
    int nleaves, next;
    kv_array **arrays; /* by slot, from slot 1 on */
    int narrays;
    prog_builder *b;
    arena memory;
    kv_err *e;
} walk;

#define REFUSE(w, node, code, ...)                                                                 \
    source_err((w)->src, (node)->pos, (node)->end, (w)->e, code, __VA_ARGS__)

static int visit(walk *w, const ast *node, item *out);

static int place(walk *w, const ast *node, int rc)
{
    source_at(w->src, node->pos, node->end, w->e);
    return rc;
}

static int take_leaf(walk *w, item *out)
{
    const expr_leaf *leaf = &w->leaves[w->next++];
    if (!leaf->array) {
        *out = (item){.is_host = true, .number = leaf->number};
        return KV_OK;
    }
    int slot = 1;
    while (slot <= w->narrays && w->arrays[slot] != leaf->array)
        slot++;
    if (slot > w->narrays) {
        w->arrays[slot] = leaf->array;
        w->narrays = slot;
    }
    if (slot > PROG_MAX_SLOT)
        return kv_err_set(w->e, KV_E_VALUE, "one expression takes at most %d arrays",
                          PROG_MAX_SLOT);
    *out = (item){.dtype = kv_array_dtype(leaf->array),
                  .slot = slot,
                  .v = -1,
                  .ndim = kv_array_ndim(leaf->array),
                  .shape = kv_array_shape(leaf->array)};
    return KV_OK;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static bool same_shape(const item *x, const item *y)
{
    return x->ndim == y->ndim &&
           (x->shape == y->shape ||
            memcmp(x->shape, y->shape, sizeof *x->shape * (size_t)x->ndim) == 0);
}

/* The size of axis i of ndim, counted with the axes that are missing in front. */
static int64_t axis(const item *x, int ndim, int i)
{
    return i < ndim - x->ndim ? 1 : x->shape[i - (ndim - x->ndim)];
}

/* Gives to, an item that holds arrays, the shape that it and x broadcast to. */
static int join_shapes(walk *w, const ast *node, item *to, const item *x)
{
    if (x->is_host || same_shape(to, x))
        return KV_OK;
    int ndim = to->ndim > x->ndim ? to->ndim : x->ndim;
    int64_t *shape = arena_alloc(&w->memory, sizeof *shape * (size_t)(ndim + 1), w->e);
    if (!shape)
        return KV_E_MEMORY;
    for (int i = 0; i < ndim; i++) {
        int64_t a = axis(to, ndim, i), b = axis(x, ndim, i);
        if (a != b && a != 1 && b != 1) {
            char left[128], right[128];
            kv_shape_text(left, sizeof left, to->ndim, to->shape);
            kv_shape_text(right, sizeof right, x->ndim, x->shape);
            return REFUSE(w, node, KV_E_SHAPE, "shapes %s and %s do not fit", left, right);
        }
        shape[i] = a == 1 ? b : a;
    }
    to->ndim = ndim;
    to->shape = shape;
    return KV_OK;
}

/* An item of this dtype with the shape that x and y have together; one of them holds arrays. */
static int shaped(walk *w, const ast *node, kv_dtype dtype, const item *x, const item *y, item *out)
{
    const item *from = x->is_host ? y : x;
    *out = (item){.dtype = dtype, .slot = -1, .v = -1, .ndim = from->ndim, .shape = from->shape};
    return join_shapes(w, node, out, y);
}

/* ---- Dtypes ---------------------------------------------------------------------------------- */

static bool is_float(kv_dtype dtype)
{
    return kv_dtype_is_float(dtype);
}

/* The dtype that elements of both have together. */
static kv_dtype promoted(kv_dtype x, kv_dtype y)
{
    if (x == y)
        return x;
    if (is_float(x) && is_float(y))
        return x == KV_FLOAT64 || y == KV_FLOAT64 ? KV_FLOAT64 : KV_FLOAT32;
    if (is_float(x) || y == KV_BOOL)
        return x;
    if (is_float(y) || x == KV_BOOL)
        return y;
    /* int8 with uint8 needs more than either: int32, since there is no int16 */
    return x == KV_INT64 || y == KV_INT64 ? KV_INT64 : KV_INT32;
}

/* The dtype of an operation on an array of dtype and a number. */
static kv_dtype with_number(kv_dtype dtype, host number)
{
    if (dtype != KV_BOOL || number.kind == HOST_BOOL)
        return dtype;
    return number.kind == HOST_INT ? KV_INT64 : KV_FLOAT32;
}

/* The dtype of an operation on x and y, one of which holds arrays. */
static kv_dtype common_dtype(const item *x, const item *y)
{
    if (x->is_host)
        return with_number(y->dtype, x->number);
    return y->is_host ? with_number(x->dtype, y->number) : promoted(x->dtype, y->dtype);
}

/* ---- Operands -------------------------------------------------------------------------------- */

/* A number rounded once to a floating-point dtype, in type. */
static prog_value float_constant(walk *w, kv_dtype dtype, prog_type type, host x)
{
    char narrow[8];
    double wide;
    if (x.kind == HOST_FLOAT)
        cpu_dev_ops.convert(narrow, dtype, &x.u.number, KV_FLOAT64, 1);
    else
        cpu_dev_ops.convert(narrow, dtype, &x.u.integer, KV_INT64, 1);
    cpu_dev_ops.convert(&wide, KV_FLOAT64, narrow, dtype, 1);
    return prog_const(w->b, type, wide);
}

static int refuse_fraction(walk *w, const ast *node, kv_dtype dtype, host x)
{
    buf text = {0};
    host_print(&text, x, false);
    REFUSE(w, node, KV_E_DTYPE, "%s is no whole number, and the array is %s", buf_text(&text),
           kv_dtype_name(dtype));
    buf_release(&text);
    return kv_err_hint(w->e, "convert the array first: astype(a, \"float32\")");
}

/* A whole number; ranged: it must be one of dtype. */
static int whole_number(walk *w, const ast *node, kv_dtype dtype, host x, bool ranged, int64_t *out)
{
    bool whole =
        x.kind != HOST_FLOAT || (x.u.number == floor(x.u.number) && fabs(x.u.number) < 0x1p63);
    if (!whole)
        return refuse_fraction(w, node, dtype, x);
    *out = x.kind == HOST_FLOAT ? (int64_t)x.u.number : x.u.integer;
    if (ranged && !element_holds(dtype, *out))
        return REFUSE(w, node, KV_E_VALUE, "%lld does not fit into %s", (long long)*out,
                      kv_dtype_name(dtype));
    return KV_OK;
}

/* x as an operand of node: an element of dtype, held in type. */
static int operand(walk *w, const ast *node, const item *x, kv_dtype dtype, prog_type type,
                   bool ranged, prog_value *out)
{
    *out = -1;
    if (!x->is_host) {
        *out =
            x->slot >= 0 ? prog_load(w->b, x->slot, x->dtype, type) : prog_cast(w->b, type, x->v);
        return KV_OK;
    }
    if (!host_is_number(x->number))
        return REFUSE(w, node, KV_E_DTYPE, "%s cannot be computed with arrays",
                      x->number.kind == HOST_TEXT ? "a text" : "none");
    if (is_float(dtype)) {
        *out = float_constant(w, dtype, type, x->number);
        return KV_OK;
    }
    int64_t whole = 0;
    int rc = whole_number(w, node, dtype, x->number, ranged, &whole);
    if (!rc)
        *out = prog_const_int(w->b, type, whole);
    return rc;
}

/* 1 where x is true, else 0, found in x's own type and held in type. */
static int truth(walk *w, const ast *node, const item *x, prog_type type, prog_value *out)
{
    if (x->is_host) {
        *out = prog_const_int(w->b, type, host_truth(x->number));
        return KV_OK;
    }
    prog_type own =
        x->slot < 0 && x->dtype == KV_BOOL ? prog_value_type(w->b, x->v) : prog_type_of(x->dtype);
    prog_value v;
    int rc = operand(w, node, x, x->dtype, own, false, &v);
    if (x->slot < 0 || x->dtype != KV_BOOL)
        v = prog_apply(w->b, PROG_NE, v, prog_const_int(w->b, own, 0), -1);
    *out = prog_cast(w->b, type, v);
    return rc;
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* What is made of numbers alone. */
static int host_result(walk *w, const ast *node, const item *kids, item *out)
{
    host *args = arena_alloc(&w->memory, sizeof *args * node->n, w->e);
    if (!args)
        return KV_E_MEMORY;
    for (uint32_t i = 0; i < node->n; i++)
        args[i] = kids[i].number;
    *out = (item){.is_host = true};
    int rc = KV_OK;
    if (node->kind == AST_CALL)
        rc = host_call(node->u.text, args, (int)node->n, &out->number, w->e);
    else if (node->kind == AST_UNARY)
        rc = host_unary((ast_op)node->op, args[0], &out->number, w->e);
    else if (node->op == OP_AND || node->op == OP_OR)
        out->number = args[host_truth(args[0]) == (node->op == OP_AND)];
    else
        rc = host_binary((ast_op)node->op, args[0], args[1], &out->number, &w->memory, w->e);
    return rc ? place(w, node, rc) : KV_OK;
}

/* out->v, an operation's result, as its dtype holds it. chosen: it is one of its operands, or as
 * narrow. */
static void settle(walk *w, item *out, prog_value v, bool chosen)
{
    bool integer = !is_float(out->dtype);
    out->v = chosen && !integer ? v : prog_narrow(w->b, out->dtype, v);
}

/* Integers divided: in binary64, which holds most of them, rounded once to float32. */
static int divide_integers(walk *w, const ast *node, const item *kids, item *out)
{
    prog_value x, y;
    int rc = operand(w, node, &kids[0], KV_FLOAT64, PROG_F64, false, &x);
    if (!rc)
        rc = operand(w, node, &kids[1], KV_FLOAT64, PROG_F64, false, &y);
    if (!rc)
        rc = shaped(w, node, KV_FLOAT32, &kids[0], &kids[1], out);
    if (!rc)
        out->v = prog_cast(w->b, PROG_F32, prog_apply(w->b, PROG_DIV, x, y, -1));
    return rc;
}

static int two_operands(walk *w, const ast *node, prog_op op, const item *kids, item *out)
{
    kv_dtype dtype = common_dtype(&kids[0], &kids[1]);
    prog_type type = prog_type_of(dtype);
    prog_value x, y;
    int rc = operand(w, node, &kids[0], dtype, type, true, &x);
    if (!rc)
        rc = operand(w, node, &kids[1], dtype, type, true, &y);
    if (!rc)
        rc = shaped(w, node, dtype, &kids[0], &kids[1], out);
    if (!rc)
        settle(w, out, prog_apply(w->b, op, x, y, -1), op == PROG_MIN || op == PROG_MAX);
    return rc;
}

/* An integer array compared with a number that is none of its dtype: x < 2.5 is x <= 2. Gives the
 * comparison and the whole number that say the same; one that is always true or false becomes a
 * comparison with what no element is above or below. */
static host whole_bound(prog_op *op, host k)
{
    double x = k.u.number;
    if (isnan(x)) {
        bool never = *op != PROG_NE;
        *op = never ? PROG_LT : PROG_GE;
        return host_int(INT64_MIN);
    }
    if (x >= 0x1p63 || x < -0x1p63) {
        bool below = x < 0;
        bool always = *op == PROG_NE || ((*op == PROG_GT || *op == PROG_GE)
                                             ? below
                                             : (*op == PROG_LT || *op == PROG_LE) && !below);
        *op = always ? PROG_GE : PROG_LT;
        return host_int(INT64_MIN);
    }
    if (x == floor(x))
        return host_int((int64_t)x);
    if (*op == PROG_EQ || *op == PROG_NE) {
        *op = *op == PROG_EQ ? PROG_LT : PROG_GE;
        return host_int(INT64_MIN);
    }
    *op = *op == PROG_LT || *op == PROG_LE ? PROG_LE : PROG_GT;
    return host_int((int64_t)floor(x));
}

static prog_op mirrored(prog_op op)
{
    switch (op) {
    case PROG_LT:
        return PROG_GT;
    case PROG_LE:
        return PROG_GE;
    case PROG_GT:
        return PROG_LT;
    case PROG_GE:
        return PROG_LE;
    default: /* == and != read the same from both sides */
        return op;
    }
}

static int compare(walk *w, const ast *node, prog_op op, const item *kids, item *out)
{
    item left = kids[0], right = kids[1];
    if (left.is_host) {
        left = kids[1];
        right = kids[0];
        op = mirrored(op);
    }
    kv_dtype dtype = left.dtype;
    if (!right.is_host)
        dtype = promoted(left.dtype, right.dtype);
    else if (!is_float(dtype) && right.number.kind == HOST_FLOAT)
        right.number = whole_bound(&op, right.number);
    prog_type type = prog_type_of(dtype);
    prog_value x, y;
    int rc = operand(w, node, &left, dtype, type, false, &x);
    if (!rc)
        rc = operand(w, node, &right, dtype, type, false, &y);
    if (!rc)
        rc = shaped(w, node, KV_BOOL, &kids[0], &kids[1], out);
    if (!rc)
        out->v = prog_apply(w->b, op, x, y, -1);
    return rc;
}

static int logic(walk *w, const ast *node, prog_op op, const item *kids, item *out)
{
    prog_value x, y = -1;
    int rc = truth(w, node, &kids[0], PROG_F32, &x);
    if (!rc && node->n > 1)
        rc = truth(w, node, &kids[1], PROG_F32, &y);
    if (!rc)
        rc = shaped(w, node, KV_BOOL, &kids[0], &kids[node->n - 1], out);
    if (!rc)
        out->v = prog_apply(w->b, op, x, y, -1);
    return rc;
}

static bool holds_integers(const item *x)
{
    return x->is_host || !is_float(x->dtype);
}

static int binary(walk *w, const ast *node, const item *kids, item *out)
{
    prog_op op = element_op((ast_op)node->op);
    if (op >= PROG_EQ && op <= PROG_GE)
        return compare(w, node, op, kids, out);
    if (op == PROG_AND || op == PROG_OR)
        return logic(w, node, op, kids, out);
    if (op == PROG_DIV && holds_integers(&kids[0]) && holds_integers(&kids[1]))
        return divide_integers(w, node, kids, out);
    if (op == PROG_POW && holds_integers(&kids[0]) && kids[1].is_host &&
        host_is_number(kids[1].number) && host_number(kids[1].number) < 0) {
        REFUSE(w, node, KV_E_VALUE, "integers have no negative powers");
        return kv_err_hint(w->e, "convert the array first: astype(a, \"float32\")");
    }
    return two_operands(w, node, op, kids, out);
}

/* An operation on one array. of: the dtype it is computed for. */
static int one_operand(walk *w, const ast *node, prog_op op, const item *x, kv_dtype of,
                       bool chosen, item *out)
{
    prog_value v;
    int rc = operand(w, node, x, of, prog_type_of(of), true, &v);
    if (!rc)
        rc = shaped(w, node, of, x, x, out);
    if (!rc)
        settle(w, out, prog_apply(w->b, op, v, -1, -1), chosen);
    return rc;
}

static int unary(walk *w, const ast *node, const item *kids, item *out)
{
    if (node->op == OP_NOT)
        return logic(w, node, PROG_NOT, kids, out);
    /* there is no negative bool: -True is -1 */
    kv_dtype dtype = kids[0].dtype == KV_BOOL ? KV_INT64 : kids[0].dtype;
    if (node->op == OP_NEG)
        return one_operand(w, node, PROG_NEG, &kids[0], dtype, true, out);
    *out = kids[0];
    return KV_OK;
}

/* sqrt, exp and log of integers: in binary64, rounded once to float32. */
static int fraction(walk *w, const ast *node, prog_op op, const item *x, item *out)
{
    if (is_float(x->dtype))
        return one_operand(w, node, op, x, x->dtype, false, out);
    int rc = one_operand(w, node, op, x, KV_FLOAT64, true, out);
    out->dtype = KV_FLOAT32;
    out->v = prog_cast(w->b, PROG_F32, out->v);
    return rc;
}

static int test(walk *w, const ast *node, prog_op op, const item *x, item *out)
{
    prog_value v;
    int rc = operand(w, node, x, x->dtype, prog_type_of(x->dtype), false, &v);
    if (!rc)
        rc = shaped(w, node, KV_BOOL, x, x, out);
    if (!rc)
        out->v = prog_apply(w->b, op, v, -1, -1);
    return rc;
}

/* A bound of clip; none is the one that never binds. */
static int bound(walk *w, const ast *node, const item *x, kv_dtype dtype, double none,
                 prog_value *out)
{
    prog_type type = prog_type_of(dtype);
    if (!x->is_host || x->number.kind != HOST_NONE)
        return operand(w, node, x, dtype, type, false, out);
    *out = type != PROG_I64 ? prog_const(w->b, type, none)
                            : prog_const_int(w->b, type, none < 0 ? INT64_MIN : INT64_MAX);
    return KV_OK;
}

/* clip(x, c): to -c .. c, but only for c > 0. */
static prog_value clip_both(walk *w, prog_type type, prog_value x, prog_value c)
{
    prog_value above = prog_apply(w->b, PROG_GT, c, prog_const_int(w->b, type, 0), -1);
    prog_value clipped = prog_apply(w->b, PROG_CLIP, x, prog_apply(w->b, PROG_NEG, c, -1, -1), c);
    return prog_apply(w->b, PROG_WHERE, above, clipped, x);
}

/* The dtype of all items that hold arrays, with the numbers among them. */
static kv_dtype dtype_of_all(const item *kids, int n)
{
    int first = 0;
    while (kids[first].is_host)
        first++;
    kv_dtype dtype = kids[first].dtype;
    for (int i = 0; i < n; i++)
        if (!kids[i].is_host)
            dtype = promoted(dtype, kids[i].dtype);
    for (int i = 0; i < n; i++)
        if (kids[i].is_host && host_is_number(kids[i].number))
            dtype = with_number(dtype, kids[i].number);
    return dtype;
}

static int shape_of_all(walk *w, const ast *node, const item *kids, int n, kv_dtype dtype,
                        item *out)
{
    int first = 0;
    while (kids[first].is_host)
        first++;
    int rc = shaped(w, node, dtype, &kids[first], &kids[first], out);
    for (int i = 0; i < n && !rc; i++)
        rc = join_shapes(w, node, out, &kids[i]);
    return rc;
}

static int clip(walk *w, const ast *node, const item *kids, item *out)
{
    int n = (int)node->n;
    kv_dtype dtype = dtype_of_all(kids, n);
    prog_type type = prog_type_of(dtype);
    prog_value x, low = -1, high = -1;
    int rc = operand(w, node, &kids[0], dtype, type, true, &x);
    if (!rc && n == 3)
        rc = bound(w, node, &kids[1], dtype, -INFINITY, &low);
    if (!rc)
        rc = bound(w, node, &kids[n - 1], dtype, n == 3 ? INFINITY : 0, &high);
    if (!rc)
        rc = shape_of_all(w, node, kids, n, dtype, out);
    if (rc)
        return rc;
    bool no_bound = n == 2 && kids[1].is_host && kids[1].number.kind == HOST_NONE;
    settle(w, out,
           no_bound ? x
           : n == 2 ? clip_both(w, type, x, high)
                    : prog_apply(w->b, PROG_CLIP, x, low, high),
           true);
    return KV_OK;
}

static int where(walk *w, const ast *node, const item *kids, item *out)
{
    kv_dtype dtype = KV_FLOAT32; /* of two numbers, as wherever numbers become an array */
    if (!kids[1].is_host || !kids[2].is_host)
        dtype = common_dtype(&kids[1], &kids[2]);
    else if (kids[1].number.kind == HOST_BOOL && kids[2].number.kind == HOST_BOOL)
        dtype = KV_BOOL;
    prog_type type = prog_type_of(dtype);
    prog_value condition, yes, no;
    int rc = truth(w, node, &kids[0], type, &condition);
    if (!rc)
        rc = operand(w, node, &kids[1], dtype, type, true, &yes);
    if (!rc)
        rc = operand(w, node, &kids[2], dtype, type, true, &no);
    if (!rc)
        rc = shape_of_all(w, node, kids, 3, dtype, out);
    if (!rc)
        settle(w, out, prog_apply(w->b, PROG_WHERE, condition, yes, no), true);
    return rc;
}

static int call(walk *w, const ast *node, const item *kids, item *out)
{
    const element_function *f = element_called(node);
    int rc = element_check_count(f, (int)node->n, w->e);
    if (rc)
        return place(w, node, rc);
    switch (f->kind) {
    case FN_ONE:
    case FN_WHOLE:
        return one_operand(w, node, f->op, &kids[0], kids[0].dtype, true, out);
    case FN_FRACTION:
        return fraction(w, node, f->op, &kids[0], out);
    case FN_TEST:
        return test(w, node, f->op, &kids[0], out);
    case FN_TWO:
        return two_operands(w, node, f->op, kids, out);
    case FN_CLIP:
        return clip(w, node, kids, out);
    default: /* FN_WHERE; the others are no operators of expressions */
        return where(w, node, kids, out);
    }
}

static int visit(walk *w, const ast *node, item *out)
{
    bool is_leaf = w->next < w->nleaves && w->leaves[w->next].node == node;
    if (is_leaf || !expr_is_operator(node))
        return take_leaf(w, out);
    item few[3], *kids = few;
    if (node->n > 3 && !(kids = arena_alloc(&w->memory, sizeof *kids * node->n, w->e)))
        return KV_E_MEMORY;
    bool all_host = true;
    for (uint32_t i = 0; i < node->n; i++) {
        int rc = visit(w, node->kid[i], &kids[i]);
        if (rc)
            return rc;
        all_host &= kids[i].is_host;
    }
    if (all_host)
        return host_result(w, node, kids, out);
    if (node->kind == AST_CALL)
        return call(w, node, kids, out);
    return node->kind == AST_UNARY ? unary(w, node, kids, out) : binary(w, node, kids, out);
}

/* ---- Running it ------------------------------------------------------------------------------ */

/* Programs that need no more than this run in memory of the stack. */
#define OWN_SCRATCH 16384

/* Elements between two looks at base/stop.h. Fills of constants are repeated for each, so it is
 * some hundred blocks. */
#define PIECE (8 * STOP_EVERY)

/* The program on all elements, in pieces; moves the pointers in data on. */
static int run_pieces(walk *w, const prog *p, kv_array *result, void **data, void *scratch)
{
    int64_t size = kv_array_size(result);
    int rc = KV_OK;
    w->arrays[0] = result;
    for (int64_t i = 0; i < size && (i == 0 || !(rc = stop_check(w->e))); i += PIECE) {
        int64_t n = size - i < PIECE ? size - i : PIECE;
        (size >= PROG_FAR_SIZE ? prog_run_far : prog_run)(p, data, n, scratch);
        for (int k = 0; k <= w->narrays; k++)
            data[k] = (char *)data[k] + n * kv_dtype_bytes(kv_array_dtype(w->arrays[k]));
    }
    return rc;
}

/* Runs p: result is slot 0, w's arrays are the others, each as large as the result. */
static int run(walk *w, const prog *p, kv_array *result)
{
    _Alignas(MEM_ALIGN) char own[OWN_SCRATCH];
    int64_t bytes = prog_scratch_bytes(p);
    void *scratch = bytes <= OWN_SCRATCH ? own : mem_alloc_data(bytes, w->e);
    void **data = arena_alloc(&w->memory, sizeof *data * (size_t)(w->narrays + 1), w->e);
    int rc = scratch && data ? kv_array_write(result, &data[0], w->e) : KV_E_MEMORY;
    for (int i = 1; i <= w->narrays && !rc; i++) {
        const void *from = NULL;
        rc = kv_array_read(w->arrays[i], &from, w->e);
        memcpy(&data[i], &from, sizeof from);
    }
    if (!rc)
        rc = run_pieces(w, p, result, data, scratch);
    if (scratch != own)
        mem_free(scratch);
    return rc;
}

/* Replaces the arrays of other shapes by broadcast ones. */
static int broadcast(walk *w, const item *root)
{
    int rc = KV_OK;
    for (int i = 1; i <= w->narrays && !rc; i++) {
        kv_array *a = w->arrays[i];
        item x = {.ndim = kv_array_ndim(a), .shape = kv_array_shape(a)};
        if (same_shape(&x, root))
            kv_array_ref(a);
        else
            rc = arrange_broadcast(&w->arrays[i], a, root->ndim, root->shape, w->e);
        if (rc)
            w->narrays = i - 1;
    }
    return rc;
}

/* The program for root, run into a new array. */
static int compute(walk *w, const item *root, kv_ctx ctx, kv_array **out)
{
    prog *p = NULL;
    kv_array *result = NULL;
    prog_value v = root->slot >= 0
                       ? prog_load(w->b, root->slot, root->dtype, prog_type_of(root->dtype))
                       : root->v;
    prog_store(w->b, 0, root->dtype, v);
    int rc = prog_finish(w->b, &p, w->e);
    if (!rc)
        rc = kv_array_new_raw(&result, root->dtype, root->ndim, root->shape, ctx, w->e);
    int given = w->narrays;
    if (!rc)
        rc = broadcast(w, root);
    else
        given = 0;
    if (!rc)
        rc = run(w, p, result);
    for (int i = 1; given && i <= w->narrays; i++)
        kv_array_unref(w->arrays[i]);
    prog_free(p);
    if (rc)
        kv_array_unref(result);
    else
        *out = result;
    return rc;
}

static kv_ctx leftmost_context(const expr_leaf *leaves)
{
    while (!leaves->array)
        leaves++;
    return kv_array_ctx(leaves->array);
}

int expr_eval(kv_array **out, const ast *tree, const expr_leaf *leaves, int nleaves,
              const source *src, kv_err *e)
{
    kv_err unused = {0};
    walk w = {.src = src, .leaves = leaves, .nleaves = nleaves, .e = e ? e : &unused};
    item root = {0};
    int rc = KV_E_MEMORY;
    w.arrays = arena_alloc(&w.memory, sizeof *w.arrays * (size_t)(nleaves + 2), w.e);
    w.b = w.arrays ? prog_builder_new(w.e) : NULL;
    if (w.b)
        rc = visit(&w, tree, &root);
    if (!rc && root.is_host)
        rc = REFUSE(&w, tree, KV_E_VALUE, "the result depends on no array");
    if (!rc)
        rc = compute(&w, &root, leftmost_context(leaves), out);
    prog_builder_free(w.b);
    arena_release(&w.memory);
    return rc;
}
