/* The making of plans from inside: plan_levels.c decides in which pass each node of a rule's graph
 * is computed, plan_make.c makes the nodes that plans add to those of programs, and writes the
 * programs.
 */
#pragma once

#include "vm/plan_pass.h"

/* ---- The graph that a rule becomes: nodes of programs, and what plans add -------------------- */

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

static inline bool plan_graph_is_of_elements(prog_extent x)
{
    return x.rows && x.columns;
}

/* Returns true if a value needs whole arrays before it is computed: a reduction, a product. */
static inline bool plan_graph_waits(const node *n)
{
    return n->op >= NODE_SUM;
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* The graph, with the facts about its nodes that passes are made from. */
typedef struct plan_maker {
    prog_builder *b;
    plan *p;
    int64_t n; /* nodes */
    bool by_rows;
    bool steps; /* a plan by steps */
    bool makes; /* programs: else only errors are found */
    bool leans; /* passes have lean programs, too */
    int32_t levels, numbers;
    bool extents[3][3]; /* values or stores have this extent */
    int32_t *level;     /* of a sum: that at which it is known */
    bool *live;
    int32_t *index;     /* of a number, which a later program or one of another extent reads: its
                           place among the plan's, or -1 */
    bool *needed;       /* in the program that is being made */
    prog_extent extent; /* of that program */
    prog_value *emitted;
    int32_t *store_level; /* of each store: the pass that does it */
    int32_t *kept;        /* the place among the values that are kept, or -1 */
    int32_t *kept_level;  /* the pass that keeps it */
    bool lean;            /* the program that is being made uses what was kept … */
    bool direct;          /* … and leaves it to sums to read arrays */
    int32_t *room;        /* one for each node, for plan_levels.c */
    kv_err *e;
} plan_maker;

static inline bool plan_maker_is_row_state(const node *n)
{
    return n->op == NODE_LOAD && n->kid[0] >= PLAN_ROW_STATE && n->kid[0] < PLAN_NUMBER;
}

/* A matrix that a step makes in a way of its own. */
static inline bool plan_maker_is_product(const node *n)
{
    return n->op == NODE_MATMUL || n->op == NODE_TURNED;
}

static inline bool plan_maker_is_row_store(const node_store *s)
{
    return s->slot >= PLAN_ROW_STATE;
}

/* A sum of all elements, or of those of the present rows, that pass `level` makes. */
static inline bool plan_maker_sums(const plan_maker *m, int64_t i, int32_t level, bool present)
{
    const node *n = &m->b->nodes[i];
    return m->live[i] && n->op == NODE_SUM && m->level[i] == level + 1 && n->dtype == present &&
           plan_graph_same(m->b->nodes[n->kid[0]].extent, m->extent);
}

/* Finds the level of each node and store, which nodes are live, and how many levels there are. */
void plan_levels_find(plan_maker *m);

/* Gives places to the numbers that sums and products fill, that row states begin with, and that
 * programs of other extents read. */
void plan_levels_number(plan_maker *m);

/* Stores wait for the last pass that reads what their array held before. */
void plan_levels_settle(plan_maker *m);

/* Marks the nodes that the program of a pass computes or loads. False when there are none. */
bool plan_levels_need(plan_maker *m, int32_t level, bool present);

/* Returns true if the program of pass `level` reads node i as a number. */
bool plan_levels_reads(const plan_maker *m, int64_t i, int32_t level);

/* Returns true if that program keeps the value of node i for others. */
bool plan_levels_keeps(const plan_maker *m, int64_t i, int32_t level, bool present);

/* The slot whose array holds node i already when pass `level` runs, or -1. */
int plan_levels_stored(const plan_maker *m, int64_t i, int32_t level);

/* Returns true if pass `level` writes store s, to whole arrays or (present) to present rows. */
bool plan_levels_stores(const plan_maker *m, int64_t s, int32_t level, bool present);

/* Lean programs: the slot of an array of the key that holds the terms of sum i of pass `level`, or
 * (*squares) numbers of which they are the squares, when the pass has worked on them; or -1. */
int plan_levels_terms(const plan_maker *m, int64_t i, int32_t level, bool *squares);

/* Chooses the values that an earlier pass keeps for later ones. */
void plan_levels_keep(plan_maker *m);
