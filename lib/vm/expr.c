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
#include "base/mem.h"
#include "base/stop.h"
#include "cpu/cpu.h"
#include "vm/element.h"
#include "vm/program.h"

/* ---- The nodes of a tree --------------------------------------------------------------------- */

bool expr_is_operator(const ast *node)
{
    if (node->kind == AST_UNARY || node->kind == AST_BINARY)
        return true;
    const element_function *f = element_called(node);
    /* min and max of one array reduce it, round takes digits of a number; a named argument belongs
     * to no element-wise function */
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i]->kind == AST_ARG)
            return false;
    return f && f->op != PROG_NOPS && (f->kind != FN_TWO || node->n == 2) &&
           (f->op != PROG_ROUND || node->n == 1);
}

/* ---- The walk -------------------------------------------------------------------------------- */

/* The result of a node. */
typedef struct item {
    bool is_host;
    host number;    /* when is_host */
    kv_dtype dtype; /* else, with what follows */
    int slot;       /* a leaf; -1: an operation's result */
    prog_value v;   /* an operation's result, in the type of its operation */
    int ndim;
    const int64_t *shape; /* borrowed from an array or the memory of the walk */
} item;

/* The first failure stays in rc, and the walk goes on to the end of the operation at hand: values
 * of a program may be -1, from which nothing but -1 is made. */
typedef struct walk {
    const source *src;
    const expr_leaf *leaves;
    int nleaves, next;
    kv_array **arrays; /* by slot, from slot 1 on */
    int narrays;
    prog_builder *b;
    arena *memory; /* the builder's */
    int rc;
    kv_err *e;
} walk;

#define REFUSE(w, node, code, ...)                                                                 \
    ((w)->rc = source_err((w)->src, (node)->pos, (node)->end, (w)->e, code, __VA_ARGS__))

static void fail_at(walk *w, const ast *node, int rc)
{
    source_at(w->src, node->pos, node->end, w->e);
    w->rc = rc;
}

static void *take_memory(walk *w, size_t bytes)
{
    void *memory = arena_alloc(w->memory, bytes, w->e);
    if (!memory)
        w->rc = KV_E_MEMORY;
    return memory;
}

static item take_leaf(walk *w)
{
    const expr_leaf *leaf = &w->leaves[w->next++];
    if (!leaf->array)
        return (item){.is_host = true, .number = leaf->number};
    int slot = 1;
    while (slot <= w->narrays && w->arrays[slot] != leaf->array)
        slot++;
    if (slot > w->narrays) {
        w->arrays[slot] = leaf->array;
        w->narrays = slot;
    }
    if (slot > PROG_MAX_SLOT)
        w->rc =
            kv_err_set(w->e, KV_E_VALUE, "one expression takes at most %d arrays", PROG_MAX_SLOT);
    return (item){.dtype = kv_array_dtype(leaf->array),
                  .slot = slot,
                  .v = -1,
                  .ndim = kv_array_ndim(leaf->array),
                  .shape = kv_array_shape(leaf->array)};
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
static void join_shapes(walk *w, const ast *node, item *to, const item *x)
{
    if (w->rc || x->is_host || same_shape(to, x))
        return;
    int ndim = to->ndim > x->ndim ? to->ndim : x->ndim;
    int64_t *shape = take_memory(w, sizeof *shape * (size_t)(ndim + 1));
    for (int i = 0; shape && i < ndim; i++) {
        int64_t a = axis(to, ndim, i), b = axis(x, ndim, i);
        if (a != b && a != 1 && b != 1) {
            char left[128], right[128];
            kv_shape_text(left, sizeof left, to->ndim, to->shape);
            kv_shape_text(right, sizeof right, x->ndim, x->shape);
            REFUSE(w, node, KV_E_SHAPE, "shapes %s and %s do not fit", left, right);
            return;
        }
        shape[i] = a == 1 ? b : a;
    }
    to->ndim = ndim;
    to->shape = shape;
}

/* An operation's result v, of dtype, with the shape that n kids have together; one of them holds
 * arrays. */
static item shaped(walk *w, const ast *node, kv_dtype dtype, const item *kids, int n, prog_value v)
{
    int first = 0;
    while (kids[first].is_host)
        first++;
    item out = {
        .dtype = dtype, .slot = -1, .v = v, .ndim = kids[first].ndim, .shape = kids[first].shape};
    for (int i = first + 1; i < n; i++)
        join_shapes(w, node, &out, &kids[i]);
    return out;
}

/* ---- Dtypes ---------------------------------------------------------------------------------- */

/* The dtype of an operation on n items, one of which holds arrays: numbers widen bools only. */
static kv_dtype common_dtype(const item *kids, int n)
{
    int first = 0;
    while (kids[first].is_host)
        first++;
    kv_dtype dtype = kids[first].dtype;
    for (int i = first + 1; i < n; i++)
        if (!kids[i].is_host && kids[i].dtype != dtype)
            dtype = promote_dtypes(dtype, kids[i].dtype);
    for (int i = 0; i < n && dtype == KV_BOOL; i++)
        if (kids[i].is_host && kids[i].number.kind != HOST_BOOL && host_is_number(kids[i].number))
            dtype = kids[i].number.kind == HOST_INT ? KV_INT64 : KV_FLOAT32;
    return dtype;
}

/* ---- Operands -------------------------------------------------------------------------------- */

/* A number rounded once to a floating-point dtype, in type. */
static prog_value float_constant(walk *w, kv_dtype dtype, prog_type type, host x)
{
    char narrow[8];
    double wide;
    if (x.kind == HOST_FLOAT)
        convert_elements(narrow, dtype, &x.u.number, KV_FLOAT64, 1);
    else
        convert_elements(narrow, dtype, &x.u.integer, KV_INT64, 1);
    convert_elements(&wide, KV_FLOAT64, narrow, dtype, 1);
    return prog_const(w->b, type, wide);
}

static void refuse_fraction(walk *w, const ast *node, kv_dtype dtype, host x)
{
    own_buf text = {0};
    host_print(&text, x, false);
    REFUSE(w, node, KV_E_DTYPE, "%s is not a whole number, and the array is %s", buf_text(&text),
           kv_dtype_name(dtype));
    kv_err_hint(w->e, "convert the array first: astype(a, \"float32\")");
}

/* A whole number; ranged: it must be one of dtype. */
static prog_value whole_constant(walk *w, const ast *node, kv_dtype dtype, prog_type type, host x,
                                 bool ranged)
{
    int64_t whole = x.u.integer;
    if (x.kind == HOST_FLOAT && !element_is_whole(x.u.number, &whole))
        refuse_fraction(w, node, dtype, x);
    else if (ranged && !element_holds(dtype, whole))
        REFUSE(w, node, KV_E_VALUE, "%lld does not fit into %s", (long long)whole,
               kv_dtype_name(dtype));
    return prog_const_int(w->b, type, whole);
}

/* x as an operand of node: an element of dtype, held in type. */
static prog_value operand(walk *w, const ast *node, const item *x, kv_dtype dtype, prog_type type,
                          bool ranged)
{
    if (w->rc)
        return -1;
    if (!x->is_host && x->slot >= 0)
        return prog_load(w->b, x->slot, x->dtype, type);
    if (!x->is_host)
        return prog_cast(w->b, type, x->v);
    if (!host_is_number(x->number)) {
        REFUSE(w, node, KV_E_DTYPE, "%s cannot be computed with arrays",
               x->number.kind == HOST_TEXT ? "a text" : "none");
        return -1;
    }
    return kv_dtype_is_float(dtype) ? float_constant(w, dtype, type, x->number)
                                    : whole_constant(w, node, dtype, type, x->number, ranged);
}

/* 1 where x is true, else 0, found in x's own type and held in type. */
static prog_value truth(walk *w, const ast *node, const item *x, prog_type type)
{
    if (x->is_host)
        return prog_const_int(w->b, type, host_truth(x->number));
    prog_type own =
        x->slot < 0 && x->dtype == KV_BOOL ? prog_value_type(w->b, x->v) : prog_type_of(x->dtype);
    prog_value v = operand(w, node, x, x->dtype, own, false);
    if (x->slot < 0 || x->dtype != KV_BOOL)
        v = prog_apply(w->b, PROG_NE, v, prog_const_int(w->b, own, 0), -1);
    return prog_cast(w->b, type, v);
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* An operation on numbers alone. */
static item host_result(walk *w, const ast *node, const item *kids)
{
    item out = {.is_host = true};
    host *args = take_memory(w, sizeof *args * node->n);
    if (!args)
        return out;
    for (uint32_t i = 0; i < node->n; i++)
        args[i] = kids[i].number;
    int rc = KV_OK;
    if (node->kind == AST_CALL)
        rc = host_call(node->u.text, args, (int)node->n, &out.number, w->e);
    else if (node->kind == AST_UNARY)
        rc = host_unary((ast_op)node->op, args[0], &out.number, w->e);
    else if (node->op == OP_AND || node->op == OP_OR)
        out.number = args[host_truth(args[0]) == (node->op == OP_AND)];
    else
        rc = host_binary((ast_op)node->op, args[0], args[1], &out.number, w->memory, w->e);
    if (rc)
        fail_at(w, node, rc);
    return out;
}

/* v, the result of op, as its dtype holds it. What is one of the operands, or as narrow, is so. */
static prog_value settled(walk *w, kv_dtype dtype, prog_op op, prog_value v)
{
    bool narrow = op == PROG_NEG || op == PROG_ABS || op >= PROG_SIGN;
    return narrow && kv_dtype_is_float(dtype) ? v : prog_narrow(w->b, dtype, v);
}

/* An operation on one or two operands of dtype. Comparisons, isfinite and isnan give bool, and take
 * numbers that are beyond the range of dtype. */
static item operation(walk *w, const ast *node, prog_op op, const item *kids, int n, kv_dtype dtype)
{
    prog_value v[2] = {-1, -1};
    bool tells = op >= PROG_EQ && op <= PROG_ISNAN;
    for (int i = 0; i < n; i++)
        v[i] = operand(w, node, &kids[i], dtype, prog_type_of(dtype), !tells);
    prog_value made = prog_apply(w->b, op, v[0], v[1], -1);
    return tells ? shaped(w, node, KV_BOOL, kids, n, made)
                 : shaped(w, node, dtype, kids, n, settled(w, dtype, op, made));
}

/* A fraction of integers: in binary64, which holds most of them, rounded once to float32. */
static item fraction(walk *w, const ast *node, prog_op op, const item *kids, int n)
{
    item out = operation(w, node, op, kids, n, KV_FLOAT64);
    out.dtype = KV_FLOAT32;
    out.v = prog_cast(w->b, PROG_F32, out.v);
    return out;
}

/* An integer array compared with a number that is none of its dtype: x < 2.5 is x <= 2. Gives the
 * comparison and the whole number that say the same; one that is always true or false becomes a
 * comparison with what no element is above or below. */
static host whole_bound(prog_op *op, host k)
{
    double x = k.u.number;
    bool less = *op == PROG_LT || *op == PROG_LE, more = *op == PROG_GT || *op == PROG_GE;
    bool near = x >= -0x1p63 && x < 0x1p63;
    if (near && x == floor(x))
        return host_int((int64_t)x);
    if (near && (less || more)) {
        *op = less ? PROG_LE : PROG_GT;
        return host_int((int64_t)floor(x));
    }
    bool always = *op == PROG_NE || (less && x > 0) || (more && x < 0);
    *op = always ? PROG_GE : PROG_LT;
    return host_int(INT64_MIN);
}

static item compare(walk *w, const ast *node, prog_op op, const item *kids)
{
    bool mirrored = kids[0].is_host;
    item side[2] = {kids[mirrored], kids[!mirrored]};
    op = mirrored ? prog_op_mirrored(op) : op;
    kv_dtype dtype = side[0].dtype;
    if (!side[1].is_host)
        dtype = promote_dtypes(dtype, side[1].dtype);
    else if (!kv_dtype_is_float(dtype) && side[1].number.kind == HOST_FLOAT)
        side[1].number = whole_bound(&op, side[1].number);
    return operation(w, node, op, side, 2, dtype);
}

static item logic(walk *w, const ast *node, prog_op op, const item *kids)
{
    prog_value x = truth(w, node, &kids[0], PROG_F32);
    prog_value y = node->n > 1 ? truth(w, node, &kids[1], PROG_F32) : -1;
    return shaped(w, node, KV_BOOL, kids, (int)node->n, prog_apply(w->b, op, x, y, -1));
}

static bool holds_integers(const item *x)
{
    return x->is_host || !kv_dtype_is_float(x->dtype);
}

static item binary(walk *w, const ast *node, const item *kids)
{
    prog_op op = element_op((ast_op)node->op);
    if (op >= PROG_EQ && op <= PROG_GE)
        return compare(w, node, op, kids);
    if (op == PROG_AND || op == PROG_OR)
        return logic(w, node, op, kids);
    if (op == PROG_DIV && holds_integers(&kids[0]) && holds_integers(&kids[1]))
        return fraction(w, node, op, kids, 2);
    if (op == PROG_POW && holds_integers(&kids[0]) && kids[1].is_host &&
        host_is_number(kids[1].number) && host_number(kids[1].number) < 0) {
        REFUSE(w, node, KV_E_VALUE, "integers have no negative powers");
        kv_err_hint(w->e, "convert the array first: astype(a, \"float32\")");
        return kids[0];
    }
    return operation(w, node, op, kids, 2, common_dtype(kids, 2));
}

static item unary(walk *w, const ast *node, const item *kids)
{
    if (node->op == OP_NOT)
        return logic(w, node, PROG_NOT, kids);
    /* there is no negative bool: -True is -1 */
    kv_dtype dtype = kids[0].dtype == KV_BOOL ? KV_INT64 : kids[0].dtype;
    return node->op == OP_NEG ? operation(w, node, PROG_NEG, kids, 1, dtype) : kids[0];
}

/* A bound of clip; none is the one that never binds: of integers the least or largest. One on the
 * other side of all elements would be the result, so it is one of dtype. */
static prog_value bound(walk *w, const ast *node, const item *x, kv_dtype dtype, double none)
{
    prog_type type = prog_type_of(dtype);
    bool binds = !x->is_host || x->number.kind != HOST_NONE;
    bool ranged = x->is_host && host_is_number(x->number) && host_number(x->number) * none < 0;
    return binds ? operand(w, node, x, dtype, type, ranged) : prog_const(w->b, type, none);
}

/* clip(x, c): to -c .. c, but only for c > 0. */
static prog_value clip_both(walk *w, prog_type type, prog_value x, prog_value c)
{
    prog_value above = prog_apply(w->b, PROG_GT, c, prog_const_int(w->b, type, 0), -1);
    prog_value clipped = prog_apply(w->b, PROG_CLIP, x, prog_apply(w->b, PROG_NEG, c, -1, -1), c);
    return prog_apply(w->b, PROG_WHERE, above, clipped, x);
}

static item clip(walk *w, const ast *node, const item *kids)
{
    int n = (int)node->n;
    kv_dtype dtype = common_dtype(kids, n);
    prog_type type = prog_type_of(dtype);
    prog_value x = operand(w, node, &kids[0], dtype, type, true), v = x;
    if (n == 3) {
        prog_value low = bound(w, node, &kids[1], dtype, -INFINITY);
        v = prog_apply(w->b, PROG_CLIP, x, low, bound(w, node, &kids[2], dtype, INFINITY));
    } else if (!kids[1].is_host || kids[1].number.kind != HOST_NONE) {
        v = clip_both(w, type, x, operand(w, node, &kids[1], dtype, type, false));
    }
    return shaped(w, node, dtype, kids, n, settled(w, dtype, PROG_CLIP, v));
}

static item where(walk *w, const ast *node, const item *kids)
{
    kv_dtype dtype = KV_FLOAT32; /* of two numbers, as wherever numbers become an array */
    if (!kids[1].is_host || !kids[2].is_host)
        dtype = common_dtype(&kids[1], 2);
    else if (kids[1].number.kind == HOST_BOOL && kids[2].number.kind == HOST_BOOL)
        dtype = KV_BOOL;
    prog_type type = prog_type_of(dtype);
    prog_value condition = truth(w, node, &kids[0], type);
    prog_value yes = operand(w, node, &kids[1], dtype, type, true);
    prog_value no = operand(w, node, &kids[2], dtype, type, true);
    prog_value v = prog_apply(w->b, PROG_WHERE, condition, yes, no);
    return shaped(w, node, dtype, kids, 3, settled(w, dtype, PROG_WHERE, v));
}

static item call(walk *w, const ast *node, const item *kids)
{
    const element_function *f = element_called(node);
    const item *x = &kids[0];
    int rc = element_check_count(f, (int)node->n, w->e);
    if (rc) {
        fail_at(w, node, rc);
        return *x;
    }
    switch (f->kind) {
    case FN_ONE:
    case FN_WHOLE:
    case FN_TEST:
        return operation(w, node, f->op, kids, 1, x->dtype);
    case FN_FRACTION:
        return kv_dtype_is_float(x->dtype) ? operation(w, node, f->op, kids, 1, x->dtype)
                                           : fraction(w, node, f->op, kids, 1);
    case FN_TWO:
        return operation(w, node, f->op, kids, 2, common_dtype(kids, 2));
    case FN_CLIP:
        return clip(w, node, kids);
    default: /* FN_WHERE; the others are no operators of expressions */
        return where(w, node, kids);
    }
}

static item visit(walk *w, const ast *node)
{
    const item none = {.is_host = true};
    bool is_leaf = w->next < w->nleaves && w->leaves[w->next].node == node;
    if (is_leaf || !expr_is_operator(node))
        return take_leaf(w);
    item few[3], *kids = few;
    if (node->n > 3 && !(kids = take_memory(w, sizeof *kids * node->n)))
        return none;
    bool all_host = true;
    for (uint32_t i = 0; i < node->n; i++) {
        kids[i] = visit(w, node->kid[i]);
        if (w->rc)
            return none;
        all_host &= kids[i].is_host;
    }
    if (all_host)
        return host_result(w, node, kids);
    if (node->kind == AST_CALL)
        return call(w, node, kids);
    return node->kind == AST_UNARY ? unary(w, node, kids) : binary(w, node, kids);
}

/* ---- Running it ------------------------------------------------------------------------------ */

/* Programs that need no more than this run in memory of the stack. */
#define OWN_SCRATCH 16384

/* Elements between two looks at base/stop.h. Fills of constants are repeated for each, so it is
 * some hundred blocks. */
#define PIECE (8 * STOP_EVERY)

/* Runs p in pieces: result is slot 0, w's arrays are the others, each as large as the result. */
static int run(walk *w, const prog *p, kv_array *result)
{
    _Alignas(MEM_ALIGN) char own[OWN_SCRATCH];
    int64_t bytes = prog_scratch_bytes(p), size = kv_array_size(result);
    void *scratch = bytes <= OWN_SCRATCH ? own : mem_alloc_data(bytes, w->e);
    void **data = arena_alloc(w->memory, sizeof *data * (size_t)(w->narrays + 1), w->e);
    int rc = scratch && data ? kv_array_write(result, &data[0], w->e) : KV_E_MEMORY;
    for (int i = 1; i <= w->narrays && !rc; i++) {
        const void *from = NULL;
        rc = kv_array_read(w->arrays[i], &from, w->e);
        memcpy(&data[i], &from, sizeof from);
    }
    w->arrays[0] = result;
    for (int64_t i = 0; !rc && i < size && (i == 0 || !(rc = stop_check(w->e))); i += PIECE) {
        int64_t n = size - i < PIECE ? size - i : PIECE;
        (size >= PROG_FAR_SIZE ? prog_run_far : prog_run)(p, data, n, scratch);
        for (int k = 0; k <= w->narrays; k++)
            data[k] = (char *)data[k] + n * kv_dtype_bytes(kv_array_dtype(w->arrays[k]));
    }
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

int expr_eval(kv_array **out, const ast *tree, const expr_leaf *leaves, int nleaves,
              const source *src, kv_err *e)
{
    kv_err unused = {0};
    walk w = {.src = src, .leaves = leaves, .nleaves = nleaves, .e = e ? e : &unused};
    item root = {0};
    if (!(w.b = prog_builder_new(w.e)))
        return KV_E_MEMORY;
    w.memory = prog_builder_memory(w.b);
    if ((w.arrays = take_memory(&w, sizeof *w.arrays * (size_t)(nleaves + 2))))
        root = visit(&w, tree);
    int rc = w.rc;
    if (!rc && root.is_host)
        rc = REFUSE(&w, tree, KV_E_VALUE, "the result depends on no array");
    while (!rc && !leaves->array) /* to the leftmost array, whose context the result gets */
        leaves++;
    if (!rc)
        rc = compute(&w, &root, kv_array_ctx(leaves->array), out);
    prog_builder_free(w.b);
    return rc;
}
