/* What each pass of a plan computes.
 *
 * Every node has a level: how many reductions must have ended before it can be computed. A pass is
 * for the nodes of one level and one extent; a number is a node that others read. Stores and sums
 * are what passes are for; everything else is computed again in each pass that needs it, except
 *
 * - what an earlier pass stored in an array of the key, and
 * - values that take long to compute, which an earlier pass keeps in memory of its own.
 *
 * A sum that no pass but a later one needs waits for it, if that one loads the sum's operands
 * anyway.
 */
#include <string.h>

#include "vm/plan_maker.h"

/* ---- Costs ----------------------------------------------------------------------------------- */

/* What an operation costs, in divisions of float32. */
static int32_t cost_of(const node *n)
{
    if (n->op == PROG_DIV || n->op == PROG_SQRT)
        return n->type == PROG_F64 ? 4 : 1;
    bool python = n->op >= PROG_FLOORDIV && n->op <= PROG_POW;
    bool curve = n->op >= PROG_EXP && n->op <= PROG_ACOS;
    return python || curve ? 8 : 0;
}

/* ---- Levels ---------------------------------------------------------------------------------- */

/* The level at which a whole array is written, before the present rows of it, which are `slot`, are
 * read and written. */
static int32_t begin_level(const plan_maker *m, int slot)
{
    for (int64_t s = 0; s < m->b->nstores && slot < PLAN_ROW_STATE; s++)
        if (m->b->stores[s].slot + PLAN_PRESENT == slot)
            return m->level[m->b->stores[s].value];
    return 0;
}

/* The extent of what a store writes. Numbers to be printed are what they are. */
static prog_extent store_extent(const plan_maker *m, const node_store *s)
{
    int kind = plan_slot_kind(s->slot);
    bool printed = kind == PLAN_ROW_PRINT || kind == PLAN_ROW_PRINT_PRESENT;
    return printed ? m->b->nodes[s->value].extent : plan_graph_extent(s->slot);
}

/* Gives value i a number if it has none and an operation of another extent reads it. */
static void number_for(plan_maker *m, int64_t i, prog_extent extent)
{
    const node *n = &m->b->nodes[i];
    bool repeats = plan_graph_kids(n) > 0 && !plan_graph_same(n->extent, extent);
    if (repeats && m->index[i] < 0)
        m->index[i] = m->numbers++;
}

/* Returns true if no program computes node n: it is what whole arrays are reduced to, or what a row
 * begins with. */
static bool is_given(const plan_maker *m, const node *n)
{
    return plan_graph_waits(n) || (m->by_rows && plan_maker_is_row_state(n));
}

void plan_levels_number(plan_maker *m)
{
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = &m->b->nodes[i];
        if (!m->live[i])
            continue;
        m->extents[n->extent.rows][n->extent.columns] = true;
        if (is_given(m, n))
            m->index[i] = m->numbers++;
        for (int j = 0; j < plan_graph_kids(n); j++) {
            int32_t kid = n->kid[j];
            if (!plan_maker_is_product(n))
                number_for(m, kid, n->op == NODE_SUM ? m->b->nodes[kid].extent : n->extent);
            else if (m->index[kid] < 0)
                m->index[kid] = m->numbers++;
        }
    }
    for (int64_t s = 0; s < m->b->nstores; s++) {
        const node_store *st = &m->b->stores[s];
        prog_extent extent = store_extent(m, st);
        m->extents[extent.rows][extent.columns] = true;
        number_for(m, st->value, extent);
    }
}

/* ---- The nodes of a pass --------------------------------------------------------------------- */

/* Returns true if some rows of a slot's array are written later. */
static bool is_begun(const plan_maker *m, int slot)
{
    bool begun = false;
    for (int64_t s = 0; s < m->b->nstores; s++)
        begun |= m->b->stores[s].slot == slot + PLAN_PRESENT;
    return begun;
}

/* Arrays to be printed change nothing in how the rest is computed. */
int plan_levels_stored(const plan_maker *m, int64_t i, int32_t level)
{
    const node *n = &m->b->nodes[i];
    for (int64_t s = 0; s < m->b->nstores; s++) {
        const node_store *st = &m->b->stores[s];
        if (st->value == i && m->store_level[s] < level && !plan_maker_is_row_store(st) &&
            plan_slot_kind(st->slot) != PLAN_PRINT && plan_graph_is_of_elements(n->extent) &&
            st->dtype == prog_dtype((prog_type)n->type) && !is_begun(m, st->slot))
            return st->slot;
    }
    return -1;
}

bool plan_levels_stores(const plan_maker *m, int64_t s, int32_t level, bool present)
{
    const node_store *st = &m->b->stores[s];
    return m->store_level[s] == level && (bool)(st->slot & PLAN_PRESENT) == present &&
           plan_graph_same(store_extent(m, st), m->extent);
}

bool plan_levels_reads(const plan_maker *m, int64_t i, int32_t level)
{
    const node *n = &m->b->nodes[i];
    return m->index[i] >= 0 &&
           (is_given(m, n) || m->level[i] < level || !plan_graph_same(n->extent, m->extent));
}

bool plan_levels_keeps(const plan_maker *m, int64_t i, int32_t level, bool present)
{
    if (present || !plan_graph_same(m->b->nodes[i].extent, m->extent))
        return false;
    return m->index[i] >= 0 ? m->level[i] == level && !plan_levels_reads(m, i, level)
                            : m->lean && m->kept[i] >= 0 && m->kept_level[i] == level;
}

/* Returns true if pass `level` does not compute node i, since it is there. */
static bool is_there(const plan_maker *m, int64_t i, int32_t level)
{
    return plan_levels_reads(m, i, level) || plan_levels_stored(m, i, level) >= 0 ||
           (m->lean && m->kept[i] >= 0 && m->kept_level[i] < level);
}

/* The slot of the same array without regard to which rows are present. */
static int array_slot(int slot)
{
    return slot < PLAN_WEIGHT ? slot & ~PLAN_PRESENT : -1;
}

/* The array that holds value i when pass `level` has worked on it, or -1. */
static int array_of(const plan_maker *m, int64_t i, int32_t level)
{
    const node *n = &m->b->nodes[i];
    int slot = plan_levels_stored(m, i, level + 1);
    int load = n->op == NODE_LOAD ? array_slot(n->kid[0]) : -1;
    if (!plan_graph_is_of_elements(n->extent) || n->type == PROG_I64)
        return -1;
    if (m->kept[i] >= 0 && m->kept_level[i] <= level)
        return PLAN_KEPT + m->kept[i];
    if (slot >= 0)
        return array_slot(slot);
    for (int64_t s = 0; s < m->b->nstores; s++)
        if (array_slot(m->b->stores[s].slot) == load && m->store_level[s] <= level)
            return -1; /* it holds something else then */
    return n->dtype == prog_dtype((prog_type)n->type) ? load : -1;
}

int plan_levels_terms(const plan_maker *m, int64_t i, int32_t level, bool *squares)
{
    int64_t x = m->b->nodes[i].kid[0];
    const node *terms = &m->b->nodes[x];
    *squares = terms->op == PROG_MUL && terms->kid[0] == terms->kid[1];
    return m->direct ? array_of(m, *squares ? terms->kid[0] : x, level) : -1;
}

bool plan_levels_need(plan_maker *m, int32_t level, bool present)
{
    memset(m->needed, 0, (size_t)m->n * sizeof *m->needed);
    /* values that the program of the pass leaves in memory */
    bool any = false, squares;
    for (int64_t s = 0; s < m->b->nstores; s++)
        if (plan_levels_stores(m, s, level, present))
            any = m->needed[m->b->stores[s].value] = true;
    for (int64_t i = 0; i < m->n; i++) {
        if (plan_maker_sums(m, i, level, present)) {
            any = true;
            m->needed[m->b->nodes[i].kid[0]] |= plan_levels_terms(m, i, level, &squares) < 0;
        }
        if (plan_levels_keeps(m, i, level, present))
            any = m->needed[i] = true;
    }
    for (int64_t i = m->n - 1; i >= 0; i--)
        for (int j = 0; m->needed[i] && j < plan_graph_kids(&m->b->nodes[i]); j++) {
            if (is_there(m, i, level))
                break;
            m->needed[m->b->nodes[i].kid[j]] = true;
        }
    return any;
}

/* Returns whether a store was put off. */
static bool delay_stores(plan_maker *m, int32_t level)
{
    bool delayed = false;
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = &m->b->nodes[i];
        if (!m->needed[i] || n->op != NODE_LOAD || plan_maker_is_row_state(n))
            continue;
        for (int64_t s = 0; s < m->b->nstores; s++) {
            int slot = m->b->stores[s].slot;
            /* the whole of a state is written before its present rows are read: see plan.h */
            bool same = slot == n->kid[0] || slot == n->kid[0] + PLAN_PRESENT;
            if (same && m->store_level[s] < level) {
                m->store_level[s] = level;
                delayed = true;
            }
        }
    }
    return delayed;
}

void plan_levels_settle(plan_maker *m)
{
    bool again = true;
    while (again) {
        again = false;
        for (int32_t level = 1; level < m->levels; level++)
            for (int present = 0; present < 2; present++)
                if (plan_levels_need(m, level, present))
                    again |= delay_stores(m, level);
    }
}

/* ---- Sums that wait -------------------------------------------------------------------------- */

/* Returns true if the terms of a sum cost nothing once what they are made of is loaded, and pass
 * `level` loads that without the sum. marks: room for a number for each node. */
static bool is_loaded(plan_maker *m, int32_t sum, int32_t level, int32_t *marks)
{
    bool loaded = true;
    m->live[sum] = false;
    plan_levels_need(m, level, false);
    m->live[sum] = true;
    memset(marks, 0, (size_t)m->n * sizeof *marks);
    marks[m->b->nodes[sum].kid[0]] = 1;
    for (int32_t i = sum - 1; i >= 0 && loaded; i--) {
        const node *n = &m->b->nodes[i];
        if (!marks[i] || !plan_graph_is_of_elements(n->extent))
            continue;
        loaded = n->op == NODE_LOAD ? m->needed[i] : cost_of(n) == 0;
        for (int j = 0; j < plan_graph_kids(n); j++)
            marks[n->kid[j]] = 1;
    }
    return loaded;
}

/* Where a sum that is known at level `most` at the latest costs no loads, or where it is. */
static int32_t cheapest_level(plan_maker *m, int32_t sum, int32_t most, int32_t *marks)
{
    for (int32_t level = m->level[sum]; level <= most; level++)
        if (is_loaded(m, sum, level - 1, marks))
            return level;
    return m->level[sum];
}

static void lower(int32_t *x, int32_t most)
{
    *x = *x < most ? *x : most;
}

/* Norms of an array in the pass that reads it anyway. m->room[i] is the level at which node i must
 * be known at the latest. */
static void delay_sums(plan_maker *m)
{
    for (int64_t i = 0; i < m->n; i++)
        m->room[i] = m->levels;
    for (int64_t s = 0; s < m->b->nstores; s++) {
        const node_store *st = &m->b->stores[s];
        int32_t own = m->level[st->value];
        lower(&m->room[st->value], plan_maker_is_row_store(st) ? own : m->store_level[s]);
    }
    for (int64_t i = m->n - 1; i >= 0; i--) {
        const node *n = &m->b->nodes[i];
        int32_t most = m->room[i];
        if (!m->live[i])
            continue;
        if (n->op == NODE_SUM && !n->dtype && most > m->level[i])
            m->level[i] = cheapest_level(m, (int32_t)i, most, m->kept_level);
        for (int j = 0; j < plan_graph_kids(n); j++)
            lower(&m->room[n->kid[j]], n->op == NODE_SUM ? m->level[i] - 1 : most);
    }
    for (int64_t i = 0; i < m->n; i++)
        for (int j = 0; j < plan_graph_kids(&m->b->nodes[i]); j++) {
            int32_t least = m->level[m->b->nodes[i].kid[j]];
            if (m->level[i] < least)
                m->level[i] = least;
        }
}

void plan_levels_find(plan_maker *m)
{
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = &m->b->nodes[i];
        m->level[i] = n->op == NODE_LOAD ? begin_level(m, n->kid[0]) : 0;
        m->index[i] = -1;
        for (int j = 0; j < plan_graph_kids(n); j++) {
            int32_t kid = n->kid[j];
            if (m->level[kid] > m->level[i])
                m->level[i] = m->level[kid];
        }
        m->level[i] += plan_graph_waits(n);
    }
    for (int64_t s = 0; s < m->b->nstores; s++) {
        const node_store *st = &m->b->stores[s];
        int32_t begin = begin_level(m, st->slot), level = m->level[st->value];
        m->store_level[s] = level > begin ? level : begin;
    }
    memset(m->live, 0, (size_t)m->n * sizeof *m->live);
    for (int64_t s = 0; s < m->b->nstores; s++)
        m->live[m->b->stores[s].value] = true;
    for (int64_t i = m->n - 1; i >= 0; i--) /* what no store needs is dead */
        for (int j = 0; m->live[i] && j < plan_graph_kids(&m->b->nodes[i]); j++)
            m->live[m->b->nodes[i].kid[j]] = true;
    m->levels = 1;
    for (int64_t i = 0; i < m->n; i++)
        if (m->live[i] && m->level[i] >= m->levels)
            m->levels = m->level[i] + 1;
    if (m->levels > 2 && !m->by_rows && !m->steps)
        delay_sums(m);
    for (int64_t s = 0; s < m->b->nstores && m->steps; s++)
        m->store_level[s] = m->levels - 1;
}

/* ---- Values that are kept -------------------------------------------------------------------- */

/* To write a value and to read it takes about as long as two divisions. */
enum { KEEP_COST = 2, MOST_COST = 1 << 20 };

/* Whatever costs enough and was computed before is marked first; of these, the ones that the pass
 * still comes to are kept. */
static void keep_for(plan_maker *m, int32_t level)
{
    if (!plan_levels_need(m, level, false))
        return;
    /* m->room: what computing each node costs in the pass, 0 for one that it does not compute */
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = &m->b->nodes[i];
        int32_t cost = cost_of(n);
        m->room[i] = 0;
        if (!m->needed[i] || is_there(m, i, level))
            continue;
        for (int j = 0; j < plan_graph_kids(n); j++)
            cost += m->room[n->kid[j]];
        m->room[i] = cost < MOST_COST ? cost : MOST_COST;
    }
    for (int64_t i = 0; i < m->n; i++)
        if (m->kept[i] < 0 && m->room[i] >= KEEP_COST && m->kept_level[i] < level &&
            m->b->nodes[i].type != PROG_I64)
            m->kept[i] = PLAN_MAX_KEPT;
    m->lean = true;
    plan_levels_need(m, level, false);
    m->lean = false;
    for (int64_t i = 0; i < m->n; i++) {
        if (m->kept[i] != PLAN_MAX_KEPT)
            continue;
        m->kept[i] = m->needed[i] && m->p->nkept < PLAN_MAX_KEPT ? m->p->nkept++ : -1;
        if (m->kept[i] >= 0 && m->b->nodes[i].type == PROG_F64)
            m->p->wide_kept = true;
    }
}

void plan_levels_keep(plan_maker *m)
{
    for (int64_t i = 0; i < m->n; i++)
        m->kept[i] = -1;
    if (!m->leans || m->by_rows)
        return;
    /* m->kept_level: the first pass that computes a node; levels where none does */
    for (int64_t i = 0; i < m->n; i++)
        m->kept_level[i] = m->levels;
    for (int32_t level = m->levels - 1; level >= 0; level--)
        if (plan_levels_need(m, level, false))
            for (int64_t i = 0; i < m->n; i++)
                if (m->needed[i] && !is_there(m, i, level))
                    m->kept_level[i] = level;
    for (int32_t level = 1; level < m->levels; level++)
        keep_for(m, level);
}
