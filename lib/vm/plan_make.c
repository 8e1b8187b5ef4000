/* Plans, first half: from the graph of a rule to passes.
 *
 * Every node has a level: how many reductions must have ended before it can be computed. A number
 * is a node that is the same for all elements; numbers are computed between passes and read by
 * programs through slots of their own. Stores and sums are what passes are for; everything else is
 * emitted again into the program of each pass that needs it.
 */
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "vm/plan_graph.h"
#include "vm/plan_grid.h"
#include "vm/plan_pass.h"

static bool is_row_state(const node *n)
{
    return n->op == NODE_LOAD && n->kid[0] >= PLAN_ROW_STATE && n->kid[0] < PLAN_PRIVATE;
}

static bool is_of_elements(const node *n)
{
    return n->extent.rows && n->extent.columns;
}

bool plan_is_number(const prog_builder *b, prog_value x)
{
    return x >= 0 && !is_of_elements(&b->nodes[x]);
}

/* One node, whose operands have been made whole. */
static prog_value whole_node(prog_builder *b, const node *n, const prog_value *whole)
{
    prog_value kid[3] = {-1, -1, -1};
    if (n->op == NODE_LOAD)
        return prog_load(b, n->kid[0] - PLAN_PRESENT, (kv_dtype)n->dtype, (prog_type)n->type);
    for (int i = 0; i < plan_graph_kids(n); i++)
        kid[i] = whole[n->kid[i]];
    return plan_graph_apply(b, n, kid);
}

prog_value plan_whole(prog_builder *b, prog_value x)
{
    if (b->failed || x < 0)
        return -1;
    prog_value *whole = mem_alloc(x + 1, sizeof *whole, NULL);
    if (!whole) {
        b->failed = KV_E_MEMORY;
        return -1;
    }
    /* all of them, since few are of no use */
    for (prog_value i = 0; i <= x; i++) {
        node n = b->nodes[i]; /* a copy: adding nodes moves them */
        bool stays = !is_of_elements(&n) || (n.op == NODE_LOAD && n.kid[0] < PLAN_PRESENT);
        whole[i] = stays ? i : whole_node(b, &n, whole);
    }
    x = whole[x];
    mem_free(whole);
    return x;
}

/* ---- Levels ---------------------------------------------------------------------------------- */

/* The graph, with the facts about its nodes that passes are made from. */
typedef struct maker {
    prog_builder *b;
    plan *p;
    int64_t n; /* nodes */
    int32_t *level;
    bool *number;   /* the same for all elements */
    int32_t *index; /* of a number that programs read: its place among the plan's, or -1 */
    bool *needed;   /* in the program that is being made */
    prog_value *emitted;
    int32_t *store_level; /* of each store: the pass that does it */
    kv_err *e;
} maker;

static bool is_row_store(const node_store *s)
{
    return s->slot >= PLAN_ROW_STATE;
}

/* The level at which a whole array is written, before the present rows of it, which are `slot`, are
 * read and written. */
static int32_t begin_level(const maker *m, int slot)
{
    for (int64_t s = 0; s < m->b->nstores && slot < PLAN_ROW_STATE; s++)
        if (m->b->stores[s].slot + PLAN_PRESENT == slot)
            return m->level[m->b->stores[s].value];
    return 0;
}

static void find_levels(maker *m)
{
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = &m->b->nodes[i];
        bool leaf = plan_graph_kids(n) == 0;
        m->level[i] = n->op == NODE_LOAD ? begin_level(m, n->kid[0]) : 0;
        m->number[i] = n->op == NODE_CONST || n->op == NODE_SUM || is_row_state(n) || !leaf;
        m->index[i] = -1;
        for (int j = 0; j < plan_graph_kids(n); j++) {
            int32_t kid = n->kid[j];
            if (m->level[kid] > m->level[i])
                m->level[i] = m->level[kid];
            if (n->op != NODE_SUM)
                m->number[i] &= m->number[kid];
        }
        if (n->op == NODE_SUM)
            m->level[i]++;
    }
    for (int64_t s = 0; s < m->b->nstores; s++) {
        const node_store *st = &m->b->stores[s];
        int32_t begin = begin_level(m, st->slot), level = m->level[st->value];
        m->store_level[s] = level > begin ? level : begin;
    }
}

/* Marks the nodes that the stores need, with the sums that they depend on; the rest is dead. */
static void find_live(maker *m, bool *live)
{
    memset(live, 0, (size_t)m->n * sizeof *live);
    for (int64_t s = 0; s < m->b->nstores; s++)
        live[m->b->stores[s].value] = true;
    for (int64_t i = m->n - 1; i >= 0; i--)
        for (int j = 0; live[i] && j < plan_graph_kids(&m->b->nodes[i]); j++)
            live[m->b->nodes[i].kid[j]] = true;
}

static bool is_const(const maker *m, int64_t i)
{
    return m->b->nodes[i].op == NODE_CONST;
}

/* Gives places to the numbers that sums fill, that row states begin with, and that programs over
 * elements read. */
static void number_numbers(maker *m, const bool *live)
{
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = &m->b->nodes[i];
        if (!live[i])
            continue;
        if (n->op == NODE_SUM || is_row_state(n))
            m->index[i] = m->p->nnumbers++;
        for (int j = 0; j < plan_graph_kids(n); j++) {
            int32_t kid = n->kid[j];
            bool read = (!m->number[i] || n->op == NODE_SUM) && m->number[kid] && !is_const(m, kid);
            if (read && m->index[kid] < 0)
                m->index[kid] = m->p->nnumbers++;
        }
    }
    for (int64_t s = 0; s < m->b->nstores; s++) {
        int32_t v = m->b->stores[s].value;
        if (!is_row_store(&m->b->stores[s]) && m->number[v] && !is_const(m, v) && m->index[v] < 0)
            m->index[v] = m->p->nnumbers++;
    }
}

/* ---- Programs over elements ------------------------------------------------------------------ */

/* Returns true if some rows of a slot's array are written later. */
static bool is_begun(const maker *m, int slot)
{
    bool begun = false;
    for (int64_t s = 0; s < m->b->nstores; s++)
        begun |= m->b->stores[s].slot == slot + PLAN_PRESENT;
    return begun;
}

static bool is_print(int slot)
{
    return slot < PLAN_ROW_STATE && slot % PLAN_PRESENT >= PLAN_PRINT;
}

/* The slot whose array holds node i already when pass `level` runs, or -1. Arrays to be printed
 * change nothing in how the rest is computed. */
static int stored_before(const maker *m, int64_t i, int32_t level)
{
    const node *n = &m->b->nodes[i];
    for (int64_t s = 0; s < m->b->nstores; s++) {
        const node_store *st = &m->b->stores[s];
        if (st->value == i && m->store_level[s] < level && !is_row_store(st) &&
            !is_print(st->slot) && !m->number[i] &&
            st->dtype == prog_dtype((prog_type)n->type) && !is_begun(m, st->slot))
            return st->slot;
    }
    return -1;
}

static bool is_root_store(const maker *m, int64_t s, int32_t level, bool present)
{
    const node_store *st = &m->b->stores[s];
    return m->store_level[s] == level && !is_row_store(st) && (st->slot >= PLAN_PRESENT) == present;
}

/* Marks the nodes that the program of a pass computes. False when there are none. */
static bool find_needed(maker *m, const bool *live, int32_t level, bool present)
{
    bool any = false;
    memset(m->needed, 0, (size_t)m->n * sizeof *m->needed);
    for (int64_t s = 0; s < m->b->nstores; s++)
        if (is_root_store(m, s, level, present))
            any = m->needed[m->b->stores[s].value] = true;
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = &m->b->nodes[i];
        if (live[i] && n->op == NODE_SUM && m->level[i] == level + 1 && n->dtype == present)
            any = m->needed[n->kid[0]] = true;
    }
    for (int64_t i = m->n - 1; i >= 0; i--) {
        bool ends = m->number[i] || stored_before(m, i, level) >= 0;
        for (int j = 0; m->needed[i] && !ends && j < plan_graph_kids(&m->b->nodes[i]); j++)
            m->needed[m->b->nodes[i].kid[j]] = true;
    }
    return any;
}

/* A store must wait for the last pass that reads what its array held before. Returns whether one
 * was put off. */
static bool delay_stores(maker *m, int32_t level)
{
    bool delayed = false;
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = &m->b->nodes[i];
        if (!m->needed[i] || n->op != NODE_LOAD || is_row_state(n))
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

static void settle_stores(maker *m, const bool *live, int32_t levels)
{
    bool again = true;
    while (again) {
        again = false;
        for (int32_t level = 1; level < levels; level++)
            for (int present = 0; present < 2; present++)
                if (find_needed(m, live, level, present))
                    again |= delay_stores(m, level);
    }
}

/* The number of a slot among the slots of a pass. */
static int pass_slot(plan_pass *pass, int slot)
{
    int i = 0;
    while (i < pass->nslots && pass->slot[i] != slot)
        i++;
    if (i == pass->nslots)
        pass->slot[pass->nslots++] = (int16_t)slot;
    return i;
}

/* Emits node i into a program whose numbers come from slots of their own. */
static prog_value emit_operation(maker *m, prog_builder *to, int64_t i)
{
    const node *n = &m->b->nodes[i];
    prog_value kid[3] = {-1, -1, -1};
    for (int j = 0; j < plan_graph_kids(n); j++)
        kid[j] = m->emitted[n->kid[j]];
    return plan_graph_apply(to, n, kid);
}

static prog_value emit_element(maker *m, plan_pass *pass, prog_builder *to, int64_t i,
                               int32_t level)
{
    const node *n = &m->b->nodes[i];
    prog_type type = (prog_type)n->type;
    int slot = stored_before(m, i, level);
    if (m->number[i] && n->op != NODE_CONST) {
        m->p->number_type[m->index[i]] = (uint8_t)type;
        int number = pass_slot(pass, PLAN_PRIVATE + m->index[i]);
        /* by rows, elements of several rows are worked on at a time: each has its own */
        return m->p->by_rows ? prog_load(to, number, prog_dtype(type), type)
                             : prog_load_number(to, number, type);
    }
    if (slot >= 0)
        return prog_load(to, pass_slot(pass, slot), prog_dtype(type), type);
    if (n->op == NODE_LOAD)
        return prog_load(to, pass_slot(pass, n->kid[0]), (kv_dtype)n->dtype, type);
    return emit_operation(m, to, i);
}

/* A sum's terms go to a slot behind those of the numbers. */
static void emit_sums(maker *m, plan_pass *pass, prog_builder *to, const bool *live, int32_t level)
{
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = &m->b->nodes[i];
        if (!live[i] || n->op != NODE_SUM || m->level[i] != level + 1 ||
            n->dtype != pass->present)
            continue;
        if (!kv_assert(pass->nsums < PLAN_MAX_NUMBERS, "a pass makes more than %d sums",
                       pass->nsums))
            return;
        int slot = pass_slot(pass, PLAN_PRIVATE + PLAN_MAX_NUMBERS + pass->nsums);
        prog_store(to, slot, prog_dtype((prog_type)n->type), m->emitted[n->kid[0]]);
        m->p->number_type[m->index[i]] = n->type;
        pass->sum[pass->nsums++] = (plan_total){
            (int16_t)m->index[i], (uint8_t)plan_graph_fold(n), plan_graph_order(n)};
    }
}

static int make_elements(maker *m, plan_pass *pass, const bool *live, int32_t level, bool present)
{
    if (!find_needed(m, live, level, present))
        return KV_OK;
    prog_builder *to = prog_builder_new(m->e);
    if (!to)
        return KV_E_MEMORY;
    pass->present = present;
    for (int64_t i = 0; i < m->n; i++)
        m->emitted[i] = m->needed[i] ? emit_element(m, pass, to, i, level) : -1;
    emit_sums(m, pass, to, live, level);
    for (int64_t s = 0; s < m->b->nstores; s++)
        if (is_root_store(m, s, level, present))
            prog_store(to, pass_slot(pass, m->b->stores[s].slot), m->b->stores[s].dtype,
                       m->emitted[m->b->stores[s].value]);
    int rc = prog_finish(to, &pass->elements, m->e);
    prog_builder_free(to);
    return rc;
}

/* ---- Programs over numbers ------------------------------------------------------------------- */

/* The row stores of a level: numbers of their own, which are copied back when a row ends. */
static void store_rows(maker *m, prog_builder *to, int32_t level)
{
    for (int64_t s = 0; s < m->b->nstores; s++) {
        const node_store *st = &m->b->stores[s];
        if (!is_row_store(st) || m->level[st->value] != level)
            continue;
        if (!kv_assert(m->p->nrows < PLAN_MAX_ROWS && m->p->nnumbers < 2 * PLAN_MAX_NUMBERS,
                       "a plan has more than %d rows and %d numbers", m->p->nrows,
                       m->p->nnumbers))
            return;
        plan_row *row = &m->p->row[m->p->nrows++];
        *row = (plan_row){(int16_t)st->slot, (int16_t)m->p->nnumbers, true};
        m->p->number_type[m->p->nnumbers] = m->b->nodes[st->value].type;
        prog_store(to, m->p->nnumbers++, st->dtype, m->emitted[st->value]);
    }
}

/* Numbers that pass `level` finds computed: everything of that level but sums and row states. */
static int make_numbers(maker *m, plan_pass *pass, const bool *live, int32_t level)
{
    prog_builder *to = prog_builder_new(m->e);
    bool any = false;
    if (!to)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = &m->b->nodes[i];
        prog_type type = (prog_type)n->type;
        bool given = n->op == NODE_SUM || is_row_state(n);
        m->emitted[i] = -1;
        if (!live[i] || !m->number[i] || m->level[i] > level)
            continue;
        if (given || (m->index[i] >= 0 && m->level[i] < level))
            m->emitted[i] = prog_load(to, m->index[i], prog_dtype(type), type);
        else
            m->emitted[i] = emit_operation(m, to, i);
        if (!given && m->index[i] >= 0 && m->level[i] == level) {
            prog_store(to, m->index[i], prog_dtype(type), m->emitted[i]);
            m->p->number_type[m->index[i]] = n->type;
            any = true;
        }
    }
    int before = m->p->nrows;
    store_rows(m, to, level);
    any |= m->p->nrows > before;
    int rc = any ? prog_finish(to, &pass->numbers, m->e) : KV_OK;
    prog_builder_free(to);
    return rc;
}

static void load_rows(maker *m, const bool *live)
{
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = &m->b->nodes[i];
        if (!live[i] || !is_row_state(n))
            continue;
        m->p->number_type[m->index[i]] = n->type;
        m->p->row[m->p->nrows++] =
            (plan_row){(int16_t)n->kid[0], (int16_t)m->index[i], false};
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int32_t count_levels(const maker *m, const bool *live)
{
    int32_t levels = 1;
    for (int64_t i = 0; i < m->n; i++)
        if (live[i] && m->level[i] >= levels)
            levels = m->level[i] + 1;
    return levels;
}

/* Returns true if a store writes rows that may be absent. */
static bool is_of_every_row(const node_store *s)
{
    return s->slot < PLAN_PRESENT ||
           (s->slot >= PLAN_ROW_BEGIN && s->slot < PLAN_ROW_PRINT_PRESENT);
}

static int64_t count_sums(const maker *m)
{
    int64_t n = 0;
    for (int64_t i = 0; i < m->n; i++)
        n += m->b->nodes[i].op == NODE_SUM;
    return n;
}

/* The slots of a pass are at most so many: each node is loaded, read as a number or added up, and
 * each store has one. */
static int64_t slots_most(const maker *m)
{
    return m->n + count_sums(m) + m->b->nstores;
}

/* An empty plan of so many levels, which have two passes each: over all elements, and over those of
 * the present rows. Some rules make a plan for every key of a push, so it has no pass too many. */
static int new_plan(plan **out, const maker *m, int32_t levels, prog_type type, bool by_rows)
{
    if (levels > PLAN_MAX_PASSES / 2)
        return kv_err_set(m->e, KV_E_VALUE, "a rule reduces at most %d times in a row",
                          PLAN_MAX_PASSES / 2 - 1);
    int64_t passes = 2 * levels, slots = slots_most(m), sums = count_sums(m);
    int64_t lists = (int64_t)sizeof(plan) + passes * (int64_t)sizeof(plan_pass);
    int64_t bytes = lists + passes * (sums * (int64_t)sizeof(plan_total) + slots * 2);
    plan *p = mem_zalloc(bytes, 1, m->e);
    if (!p)
        return KV_E_MEMORY;
    plan_total *totals = (plan_total *)(void *)((char *)p + lists);
    int16_t *places = (int16_t *)(void *)(totals + passes * sums);
    for (int64_t i = 0; i < passes; i++) {
        p->pass[i].sum = totals + i * sums;
        p->pass[i].slot = places + i * slots;
    }
    p->type = type;
    p->by_rows = by_rows;
    p->most_passes = 2 * levels;
    for (int64_t s = 0; s < m->b->nstores; s++)
        p->every_row |= is_of_every_row(&m->b->stores[s]);
    *out = p;
    return KV_OK;
}

static int make_passes(maker *m, const bool *live, int32_t levels)
{
    plan *p = m->p;
    number_numbers(m, live);
    if (p->nnumbers + (int)m->b->nstores > PLAN_MAX_NUMBERS)
        return kv_err_set(m->e, KV_E_VALUE, "a rule reduces to at most %d numbers",
                          PLAN_MAX_NUMBERS);
    load_rows(m, live);
    settle_stores(m, live, levels);
    for (int32_t level = 0; level < levels; level++) {
        kv_assert(p->npasses + 2 <= p->most_passes, "pass %d of a plan with room for %d",
                  p->npasses, p->most_passes);
        int rc = make_numbers(m, &p->pass[p->npasses], live, level);
        for (int present = 0; present < 2 && !rc; present++) {
            plan_pass *pass = &p->pass[p->npasses];
            rc = make_elements(m, pass, live, level, present);
            if (pass->elements || pass->numbers)
                p->npasses++;
        }
        if (rc)
            return rc;
    }
    return KV_OK;
}

/* Counts the memory of a run once, so that a push need not. */
static void measure(plan *p)
{
    for (int i = 0; i < p->npasses; i++) {
        plan_pass *pass = &p->pass[i];
        kv_assert(pass->nslots <= PLAN_MAX_SLOTS, "a pass uses %d slots", pass->nslots);
        int64_t numbers = pass->numbers ? prog_scratch_bytes(pass->numbers) : 0;
        int64_t elements = pass->elements ? prog_scratch_bytes(pass->elements) : 0;
        int64_t most = numbers > elements ? numbers : elements;
        p->program_bytes = most > p->program_bytes ? most : p->program_bytes;
        p->most_sums = pass->nsums > p->most_sums ? pass->nsums : p->most_sums;
        for (int s = 0; s < pass->nslots; s++) {
            int slot = pass->slot[s] < PLAN_ROW_STATE ? pass->slot[s] % PLAN_PRESENT : -1;
            int draw = slot - PLAN_NORMAL;
            pass->reads_input |= slot == PLAN_INPUT;
            if (draw >= p->ndraws && draw < PLAN_MAX_DRAWS)
                p->ndraws = draw + 1;
        }
    }
}

int plan_make(plan **out, prog_builder *b, prog_type type, bool by_rows, kv_err *e)
{
    kv_err unused = {0};
    arena memory = {0};
    maker m = {.b = b, .n = b->nnodes, .e = e ? e : &unused};
    size_t n = (size_t)(b->nnodes + b->nstores + 1);
    if (b->failed) {
        prog *none;
        return prog_finish(b, &none, m.e); /* says why */
    }
    bool *live = arena_alloc(&memory, 3 * n, m.e);
    int32_t *lists = live ? arena_alloc(&memory, 4 * n * sizeof *lists, m.e) : NULL;
    int rc = lists ? KV_OK : KV_E_MEMORY;
    if (!rc) {
        m.number = live + n;
        m.needed = live + 2 * n;
        m.level = lists;
        m.index = lists + n;
        m.emitted = lists + 2 * n;
        m.store_level = lists + 3 * n;
        find_levels(&m);
        find_live(&m, live);
        int32_t levels = count_levels(&m, live);
        rc = new_plan(&m.p, &m, levels, type, by_rows);
        if (!rc)
            rc = make_passes(&m, live, levels);
        if (!rc)
            measure(m.p);
    }
    arena_release(&memory);
    if (rc)
        plan_free(m.p);
    else
        *out = m.p;
    return rc;
}

void plan_free(plan *p)
{
    for (int i = 0; p && i < p->most_passes; i++) {
        prog_free(p->pass[i].numbers);
        prog_free(p->pass[i].elements);
    }
    if (p)
        plan_grid_free(p->grid);
    mem_free(p);
}
