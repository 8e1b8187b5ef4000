/* The nodes that plans add to those of programs: reductions, products and turned matrices, and the
 * states that hold a number for each row or column. */
#include "vm/plan_graph.h"

#include <string.h>

/* ---- Extents --------------------------------------------------------------------------------- */

prog_extent plan_extent(const prog_builder *b, prog_value x)
{
    return x < 0 ? (prog_extent){PROG_ONE, PROG_ONE} : b->nodes[x].extent;
}

static bool join_axis(uint8_t *axis, uint8_t other)
{
    bool fits = *axis == other || !*axis || !other;
    *axis = *axis ? *axis : other;
    return fits;
}

bool plan_join(prog_extent *extent, prog_extent other)
{
    bool rows = join_axis(&extent->rows, other.rows);
    return join_axis(&extent->columns, other.columns) && rows;
}

static const char *axis_name(uint8_t axis)
{
    static const char *const names[] = {"1", "rows", "columns"};
    return names[axis];
}

void plan_extent_text(buf *out, prog_extent extent)
{
    buf_printf(out, "(%s, %s)", axis_name(extent.rows), axis_name(extent.columns));
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

prog_value plan_spread(prog_builder *b, prog_value x, prog_extent extent)
{
    if (b->failed || x < 0 || plan_graph_same(b->nodes[x].extent, extent))
        return x;
    node made = {.op = NODE_SPREAD,
                 .type = b->nodes[x].type,
                 .extent = extent,
                 .kid = {x, -1, -1},
                 .k.integer = extent.rows | extent.columns << 2};
    return prog_intern(b, &made);
}

static prog_value reduce(prog_builder *b, prog_value x, plan_fold fold, plan_over over,
                         bool present, int64_t order)
{
    if (b->failed || x < 0)
        return -1;
    node made = {.op = NODE_SUM,
                 .type = b->nodes[x].type,
                 .dtype = present,
                 .extent = b->nodes[x].extent,
                 .kid = {x, -1, -1},
                 .k.integer = (int64_t)fold | (int64_t)over << 3 | order << 5};
    if (over != PLAN_OVER_ROWS)
        made.extent.columns = PROG_ONE;
    if (over != PLAN_OVER_COLUMNS)
        made.extent.rows = PROG_ONE;
    return prog_intern(b, &made);
}

prog_value plan_reduce(prog_builder *b, prog_value x, plan_fold fold, plan_over over, bool present)
{
    return reduce(b, x, fold, over, present, 0);
}

prog_value plan_select(prog_builder *b, prog_value x, plan_fold fold, int64_t order)
{
    return reduce(b, x, fold, PLAN_OVER_ALL, false, order);
}

prog_value plan_sum(prog_builder *b, prog_value x, bool present)
{
    return plan_reduce(b, x, PLAN_SUM, PLAN_OVER_ALL, present);
}

prog_value plan_matmul(prog_builder *b, prog_value x, prog_value y)
{
    if (b->failed || x < 0 || y < 0)
        return -1;
    node made = {.op = NODE_MATMUL,
                 .type = b->nodes[x].type,
                 .extent = {b->nodes[x].extent.rows, b->nodes[y].extent.columns},
                 .kid = {x, y, -1}};
    return prog_intern(b, &made);
}

prog_value plan_turned(prog_builder *b, prog_value x)
{
    if (b->failed || x < 0)
        return -1;
    const node of = b->nodes[x];
    if (of.op == NODE_TURNED)
        return of.kid[0];
    node made = {.op = NODE_TURNED,
                 .type = of.type,
                 .extent = {of.extent.columns, of.extent.rows},
                 .kid = {x, -1, -1}};
    return prog_intern(b, &made);
}

static prog_value load_vector(prog_builder *b, int slot, prog_type type, prog_extent extent)
{
    prog_value x = prog_load(b, slot, prog_dtype(type), type);
    if (x >= 0)
        b->nodes[x].extent = extent;
    return x;
}

prog_value plan_row_state(prog_builder *b, int state, prog_type type)
{
    return load_vector(b, PLAN_ROW_STATE + state, type, (prog_extent){PROG_ROWS, PROG_ONE});
}

prog_value plan_column_state(prog_builder *b, int state, prog_type type)
{
    return load_vector(b, PLAN_COLUMN_STATE + state, type, (prog_extent){PROG_ONE, PROG_COLUMNS});
}

/* ---- Going through them ---------------------------------------------------------------------- */

void plan_graph_need(const prog_builder *b, bool *needed, int64_t n)
{
    for (int64_t i = n - 1; i >= 0; i--)
        for (int j = 0; needed[i] && j < plan_graph_kids(&b->nodes[i]); j++)
            needed[b->nodes[i].kid[j]] = true;
}

void plan_graph_live(const prog_builder *b, bool *live)
{
    memset(live, 0, (size_t)b->nnodes * sizeof *live);
    for (int64_t s = 0; s < b->nstores; s++)
        live[b->stores[s].value] = true;
    plan_graph_need(b, live, b->nnodes);
}

prog_value plan_graph_apply(prog_builder *to, const node *n, const prog_value *made)
{
    prog_type type = (prog_type)n->type;
    prog_value kid[3] = {-1, -1, -1};
    for (int i = 0; i < plan_graph_kids(n); i++)
        kid[i] = made[n->kid[i]];
    if (n->op == NODE_CONST)
        return prog_const_like(to, n);
    if (n->op == NODE_SPREAD)
        return kid[0];
    if (n->op == NODE_CAST)
        return prog_cast(to, type, kid[0]);
    if (n->op == NODE_NARROW)
        return prog_narrow(to, (kv_dtype)n->dtype, kid[0]);
    return prog_apply(to, (prog_op)n->op, kid[0], kid[1], kid[2]);
}
