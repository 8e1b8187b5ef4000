/* The graph that a rule becomes, before plans are made of it: what plans add to the operations of
 * programs, and how nodes are gone through. */
#pragma once

#include "vm/plan.h"
#include "vm/prog.h"

/* A NODE_SUM is one of these ways to reduce, over one of these axes. */
static inline plan_fold plan_graph_fold(const node *n)
{
    return (plan_fold)(n->k.integer & 7);
}

static inline plan_over plan_graph_over(const node *n)
{
    return (plan_over)(n->k.integer >> 3 & 3);
}

/* Of PLAN_ORDER and PLAN_LEAST. */
static inline int64_t plan_graph_order(const node *n)
{
    return n->k.integer >> 5;
}

/* The number of children of a node that are nodes: a load's and a constant's are not. */
static inline int plan_graph_kids(const node *n)
{
    int count = 0;
    if (n->op == NODE_LOAD || n->op == NODE_CONST)
        return 0;
    while (count < 3 && n->kid[count] >= 0)
        count++;
    return count;
}

/* Marks what the marked nodes, n of them at most, are made of. */
void plan_graph_need(const prog_builder *b, bool *needed, int64_t n);

/* Marks the nodes of a builder that its stores need; the rest is dead. */
void plan_graph_live(const prog_builder *b, bool *live);

/* The extent of the array of the key behind a slot. */
static inline prog_extent plan_graph_extent(int slot)
{
    int kind = plan_slot_kind(slot);
    bool rows = kind == PLAN_ROW_STATE || kind == PLAN_ROW_BEGIN,
         columns = kind == PLAN_COLUMN_STATE;
    return (prog_extent){columns ? PROG_ONE : PROG_ROWS, rows ? PROG_ONE : PROG_COLUMNS};
}

static inline bool plan_graph_same(prog_extent a, prog_extent b)
{
    return a.rows == b.rows && a.columns == b.columns;
}

static inline bool plan_graph_is_one(prog_extent x)
{
    return !x.rows && !x.columns;
}

/* An operation of one builder in another one, or the same; made: what its nodes are there. */
prog_value plan_graph_apply(prog_builder *to, const node *n, const prog_value *made);

/* Returns true if a value needs whole arrays before it is computed: a reduction, a product. */
static inline bool plan_graph_waits(const node *n)
{
    return n->op >= NODE_SUM;
}
