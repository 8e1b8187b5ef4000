/* Plans, first half: from the graph of a rule to passes, each over values of one extent.
 *
 * plan_levels.c decides what each pass computes; this file writes the programs. What an earlier
 * pass, or one of another extent, has computed a program reads through slots of their own: it is a
 * number of the plan. By steps (plan_grid.c) a number may have any extent, else it is one for all
 * elements or, by rows, for those of a row.
 */
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "vm/plan_maker.h"

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

prog_value plan_reduce(prog_builder *b, prog_value x, plan_reduction how)
{
    if (!b->failed && x >= 0 && plan_graph_is_one(b->nodes[x].extent)) /* all elements are alike */
        x = plan_spread(b, x, (prog_extent){PROG_ROWS, PROG_COLUMNS});
    if (b->failed || x < 0)
        return -1;
    node made = {.op = NODE_SUM,
                 .type = b->nodes[x].type,
                 .dtype = how.present,
                 .extent = b->nodes[x].extent,
                 .kid = {x, -1, -1},
                 .k.integer = (int64_t)how.fold | (int64_t)how.over << 3 | how.order << 5};
    if (how.over != PLAN_OVER_ROWS)
        made.extent.columns = PROG_ONE;
    if (how.over != PLAN_OVER_COLUMNS)
        made.extent.rows = PROG_ONE;
    return prog_intern(b, &made);
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

prog_value plan_load_state(prog_builder *b, int slot, prog_type type)
{
    prog_value x = prog_load(b, slot, prog_dtype(type), type);
    if (x >= 0 && b->nodes[x].op == NODE_LOAD && b->nodes[x].kid[0] == slot)
        b->nodes[x].extent = plan_graph_extent(slot);
    return x;
}

/* An operation of one builder in another one, or the same; made: what its nodes are there. */
static prog_value apply_node(prog_builder *to, const node *n, const prog_value *made)
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

/* ---- Elements and numbers -------------------------------------------------------------------- */

prog_value plan_whole(prog_builder *b, prog_value x)
{
    if (b->failed || x < 0)
        return -1;
    own_mem prog_value *whole = mem_alloc(x + 1, sizeof *whole, NULL);
    if (!whole) {
        b->failed = KV_E_MEMORY;
        return -1;
    }
    /* all of them, since few are of no use */
    for (prog_value i = 0; i <= x; i++) {
        node n = b->nodes[i]; /* a copy: adding nodes moves them */
        bool load = n.op == NODE_LOAD;
        bool stays = !plan_graph_is_of_elements(n.extent) || (load && !(n.kid[0] & PLAN_PRESENT));
        whole[i] = stays ? i
                   : load
                       ? prog_load(b, n.kid[0] - PLAN_PRESENT, (kv_dtype)n.dtype, (prog_type)n.type)
                       : apply_node(b, &n, whole);
    }
    return whole[x];
}

/* ---- Programs ------------------------------------------------------------------ */

/* The number of a slot among the slots of a pass. */
static int pass_slot(plan_pass *pass, int slot)
{
    int i = 0;
    while (i < pass->nslots && pass->slot[i] != slot)
        i++;
    if (i == pass->nslots)
        pass->slot[pass->nslots++] = slot;
    return i;
}

/* Emits node i into a program whose numbers come from slots of their own. */
static prog_value emit_element(plan_maker *m, plan_pass *pass, prog_builder *to, int64_t i,
                               int32_t level)
{
    const node *n = &m->b->nodes[i];
    prog_type type = (prog_type)n->type;
    int slot = plan_levels_stored(m, i, level);
    bool kept = m->lean && m->kept[i] >= 0 && m->kept_level[i] < level;
    if (plan_levels_reads(m, i, level)) {
        m->p->number_type[m->index[i]] = (uint8_t)type;
        int number = pass_slot(pass, PLAN_NUMBER + m->index[i]);
        return plan_graph_is_one(n->extent) ? prog_load_number(to, number, type)
                                            : prog_load(to, number, prog_dtype(type), type);
    }
    if (slot >= 0 || kept)
        return prog_load(to, pass_slot(pass, slot >= 0 ? slot : PLAN_KEPT + m->kept[i]),
                         prog_dtype(type), type);
    if (n->op == NODE_LOAD)
        return prog_load(to, pass_slot(pass, n->kid[0]), (kv_dtype)n->dtype, type);
    return apply_node(to, n, m->emitted);
}

/* A sum's terms go to a slot behind those of the numbers, unless an array holds them. */
static void emit_sums(plan_maker *m, plan_pass *pass, prog_builder *to, int32_t level)
{
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = &m->b->nodes[i];
        if (!plan_maker_sums(m, i, level, pass->present))
            continue;
        if (!kv_assert(m->steps || pass->nsums < PLAN_MAX_NUMBERS, "a pass makes more than %d sums",
                       pass->nsums))
            return;
        bool squares;
        int array = plan_levels_terms(m, i, level, &squares);
        int slot = array >= 0 ? -1 : pass_slot(pass, PLAN_TERMS + pass->nsums);
        if (array < 0)
            prog_store(to, slot, prog_dtype((prog_type)n->type), m->emitted[n->kid[0]]);
        m->p->sums_input |= array == PLAN_INPUT;
        m->p->number_type[m->index[i]] = n->type;
        pass->sum[pass->nsums++] =
            (plan_total){.number = (int16_t)m->index[i],
                         .array = array,
                         .squares = array >= 0 && squares,
                         .fold = (uint8_t)(n->k.integer & 7), /* see plan_reduce */
                         .over = (uint8_t)(n->k.integer >> 3 & 3),
                         .order = n->k.integer >> 5};
    }
}

/* Arrays of the key are written at once; a vector of it is a number until all passes have run,
 * since later ones may read it. */
static void emit_stores(plan_maker *m, plan_pass *pass, prog_builder *to, int32_t level)
{
    for (int64_t s = 0; s < m->b->nstores; s++) {
        const node_store *st = &m->b->stores[s];
        int slot = st->slot;
        if (!plan_levels_stores(m, s, level, pass->present))
            continue;
        if (plan_maker_is_row_store(st)) {
            plan_grid *g = m->p->grid;
            int number = g ? (int)g->nbuffers++ : m->p->nnumbers++;
            if (!kv_assert(m->p->nrows < PLAN_MAX_ROWS, "a plan has more than %d vectors",
                           m->p->nrows))
                return;
            m->p->number_type[number] = m->b->nodes[st->value].type;
            m->p->row[m->p->nrows++] = (plan_row){slot, (int16_t)number, true};
            if (g)
                g->buffers[number].extent = m->extent;
            slot = PLAN_NUMBER + number;
        }
        prog_store(to, pass_slot(pass, slot), st->dtype, m->emitted[st->value]);
    }
}

/* The program over what plan_levels_need marked. */
static int make_program(plan_maker *m, plan_pass *pass, int32_t level, bool present)
{
    prog_builder *to = prog_builder_beside(m->b, m->e);
    if (!to)
        return KV_E_MEMORY;
    pass->present = present;
    pass->extent = m->extent;
    for (int64_t i = 0; i < m->n; i++)
        m->emitted[i] = m->needed[i] ? emit_element(m, pass, to, i, level) : -1;
    emit_sums(m, pass, to, level);
    /* values that later passes read */
    for (int64_t i = 0; i < m->n; i++) {
        uint8_t type = m->b->nodes[i].type;
        if (!plan_levels_keeps(m, i, level, pass->present))
            continue;
        bool number = m->index[i] >= 0;
        int slot = number ? PLAN_NUMBER + m->index[i] : PLAN_KEPT + m->kept[i];
        if (number)
            m->p->number_type[m->index[i]] = type;
        prog_store(to, pass_slot(pass, slot), prog_dtype((prog_type)type), m->emitted[i]);
    }
    emit_stores(m, pass, to, level);
    int rc = prog_finish(to, &pass->program, m->e);
    prog_builder_free(to);
    return rc;
}

/* Makes the lean form of a pass; pass->lean stays NULL if that would be the same. */
static int make_lean(plan_maker *m, plan_pass *pass, plan_pass *lean, int32_t level)
{
    int rc = KV_OK;
    bool leaner = false, squares;
    m->lean = m->direct = true;
    plan_levels_need(m, level, pass->present);
    for (int64_t i = 0; i < m->n; i++) {
        leaner |= m->needed[i] && m->kept[i] >= 0 && m->kept_level[i] <= level;
        if (plan_maker_sums(m, i, level, pass->present))
            leaner |= plan_levels_terms(m, i, level, &squares) >= 0;
    }
    if (leaner) {
        rc = make_program(m, lean, level, pass->present);
        pass->lean = lean;
    }
    m->lean = m->direct = false;
    return rc;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* Shorter ones first, so that longer ones read what those computed. */
static const prog_extent extents[] = {
    {PROG_ONE, PROG_ONE},      {PROG_ONE, PROG_ROWS},     {PROG_ONE, PROG_COLUMNS},
    {PROG_ROWS, PROG_ONE},     {PROG_COLUMNS, PROG_ONE},  {PROG_ROWS, PROG_ROWS},
    {PROG_ROWS, PROG_COLUMNS}, {PROG_COLUMNS, PROG_ROWS}, {PROG_COLUMNS, PROG_COLUMNS}};
enum { EXTENTS = sizeof extents / sizeof *extents };

/* An empty plan. A level has a pass for each extent, and of elements one more, over those of the
 * present rows; and where there are sums, lean ones. */
static int new_plan(plan_maker *m, prog_type type)
{
    int32_t levels = m->levels;
    if (levels > PLAN_MAX_LEVELS && !m->steps)
        return kv_err_set(m->e, KV_E_VALUE, "a rule reduces at most %d times in a row",
                          PLAN_MAX_LEVELS - 1);
    int64_t most = levels, sums = 0, numbers = m->numbers + m->b->nstores;
    for (int i = 0; i < EXTENTS; i++)
        most += m->extents[i / 3][i % 3] ? levels : 0;
    for (int64_t i = 0; i < m->n; i++) {
        most += m->live[i] && plan_maker_is_product(&m->b->nodes[i]);
        sums += m->b->nodes[i].op == NODE_SUM;
    }
    int64_t passes = most * (1 + m->leans);
    /* of a pass at most: each node is loaded, read as a number or added up, each store has one, and
     * so has what is kept */
    int64_t slots = m->n + sums + m->b->nstores + PLAN_MAX_KEPT;
    int64_t lists = (int64_t)sizeof(plan) + passes * (int64_t)(sizeof(plan_pass) + sizeof(prog *));
    int64_t bytes =
        lists + numbers +
        passes * (sums * (int64_t)sizeof(plan_total) + slots * (int64_t)sizeof(int32_t));
    plan *p = m->p = mem_zalloc(bytes, 1, m->e);
    if (!p)
        return KV_E_MEMORY;
    p->programs = (prog **)(void *)(p->pass + passes);
    plan_total *totals = (plan_total *)(void *)(p->programs + passes);
    int32_t *places = (int32_t *)(void *)(totals + passes * sums);
    for (int64_t i = 0; i < passes; i++) {
        p->pass[i].sum = totals + i * sums;
        p->pass[i].slot = places + i * slots;
    }
    p->number_type = (uint8_t *)(places + passes * slots);
    p->refs = 1;
    p->type = type;
    p->by_rows = m->by_rows;
    p->most_passes = (int)most;
    p->all_passes = (int)passes;
    for (int64_t s = 0; s < m->b->nstores; s++) {
        int slot = m->b->stores[s].slot;
        p->every_row |= slot < PLAN_ROW_STATE
                            ? !(slot & PLAN_PRESENT)
                            : slot >= PLAN_ROW_BEGIN && slot < PLAN_ROW_PRINT_PRESENT;
    }
    return KV_OK;
}

static int new_grid(plan_maker *m, int64_t rows, int64_t columns)
{
    int64_t most = m->numbers + m->b->nstores;
    plan_grid *g = m->p->grid =
        mem_zalloc((int64_t)sizeof *g + most * (int64_t)sizeof *g->buffers, 1, m->e);
    if (!g)
        return KV_E_MEMORY;
    g->rows = rows;
    g->columns = columns;
    g->nbuffers = m->numbers;
    for (int64_t i = 0; i < m->n; i++)
        if (m->index[i] >= 0)
            g->buffers[m->index[i]].extent = m->b->nodes[i].extent;
    return KV_OK;
}

/* The passes of a level over values of m->extent. */
static int make_extent(plan_maker *m, int32_t level)
{
    plan *p = m->p;
    for (int present = 0; present < 2; present++) {
        plan_pass *pass = &p->pass[p->npasses];
        if (!plan_levels_need(m, level, present))
            continue;
        kv_assert(p->npasses < p->most_passes, "pass %d of a plan with room for %d", p->npasses,
                  p->most_passes);
        p->npasses++;
        TRY(make_program(m, pass, level, present));
        TRY(m->leans ? make_lean(m, pass, pass + p->most_passes, level) : KV_OK);
    }
    return KV_OK;
}

/* The products of a level follow the elements that they are made of. */
static void make_products(plan_maker *m, int32_t level)
{
    plan *p = m->p;
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = &m->b->nodes[i];
        if (!m->live[i] || !plan_maker_is_product(n) || m->level[i] != level + 1)
            continue;
        plan_pass *pass = &p->pass[p->npasses++];
        pass->does = n->op == NODE_MATMUL ? PLAN_PRODUCT : PLAN_TURN;
        pass->depth = m->b->nodes[n->kid[0]].extent.columns;
        pass->extent = n->extent;
        pass->a = (int16_t)m->index[n->kid[0]];
        pass->b = n->kid[1] < 0 ? pass->a : (int16_t)m->index[n->kid[1]];
        pass->to = (int16_t)m->index[i];
        p->number_type[pass->to] = n->type;
    }
}

static int make_passes(plan_maker *m)
{
    plan *p = m->p;
    if (m->numbers + (int)m->b->nstores > PLAN_MAX_NUMBERS && !m->steps)
        return kv_err_set(m->e, KV_E_VALUE, "a rule reduces to at most %d numbers",
                          PLAN_MAX_NUMBERS);
    if (!m->makes)
        return KV_OK;
    p->nnumbers = m->steps ? 0 : m->numbers;
    for (int64_t i = 0; i < m->n && m->by_rows; i++) {
        const node *n = &m->b->nodes[i];
        if (!m->live[i] || !plan_maker_is_row_state(n))
            continue;
        p->number_type[m->index[i]] = n->type;
        p->row[p->nrows++] = (plan_row){n->kid[0], (int16_t)m->index[i], false};
    }
    plan_levels_settle(m);
    plan_levels_keep(m);
    for (int32_t level = 0; level < m->levels; level++) {
        for (int i = 0; i < EXTENTS; i++) {
            m->extent = extents[i];
            if (m->extents[m->extent.rows][m->extent.columns])
                TRY(make_extent(m, level));
        }
        make_products(m, level);
    }
    return KV_OK;
}

/* Counts the memory of a run once, so that a push need not. */
static void measure(plan *p)
{
    for (int i = 0; i < p->all_passes; i++) {
        plan_pass *pass = &p->pass[i];
        kv_assert(p->grid || pass->nslots <= PLAN_MAX_SLOTS, "a pass uses %d slots", pass->nslots);
        int64_t most = pass->program ? prog_scratch_bytes(pass->program) : 0;
        p->program_bytes = most > p->program_bytes ? most : p->program_bytes;
        p->most_sums = pass->nsums > p->most_sums ? pass->nsums : p->most_sums;
        for (int s = 0; s < pass->nslots; s++) {
            int kind = plan_slot_kind(pass->slot[s]), draw = plan_slot_index(pass->slot[s]);
            pass->reads_input |= kind == PLAN_INPUT;
            if (kind == PLAN_NORMAL && draw >= p->ndraws)
                p->ndraws = draw + 1;
        }
    }
}

/* Lists the programs, and gives their constants places in the pool. */
static void list_programs(plan *p)
{
    for (int64_t i = 0; i < p->all_passes; i++) {
        prog *one = p->pass[i].program;
        if (!one)
            continue;
        one->pool_at = (int32_t)p->pool_words;
        p->pool_words += one->npool;
        p->programs[p->nprograms++] = one;
    }
}

int plan_make(plan **out, prog_builder *b, plan_way way, kv_err *e)
{
    kv_err unused = {0};
    own_arena memory = {0};
    plan_maker m = {.b = b,
                    .n = b->nnodes,
                    .by_rows = way.by_rows,
                    .steps = way.steps,
                    .makes = out != NULL,
                    .extent = {PROG_ROWS, PROG_COLUMNS},
                    .e = e ? e : &unused};
    size_t n = (size_t)(m.n + b->nstores + 1);
    if (b->failed) {
        prog *none;
        return prog_finish(b, &none, m.e); /* says why */
    }
    if (way.steps && !out)
        return KV_OK;
    m.live = arena_alloc(&memory, 2 * n, m.e);
    int32_t *lists = m.live ? arena_alloc(&memory, 7 * n * sizeof *lists, m.e) : NULL;
    if (!lists)
        return KV_E_MEMORY;
    m.needed = m.live + n;
    m.level = lists;
    m.index = lists + n;
    m.emitted = lists + 2 * n;
    m.store_level = lists + 3 * n;
    m.kept = lists + 4 * n;
    m.kept_level = lists + 5 * n;
    m.room = lists + 6 * n;
    plan_levels_find(&m);
    plan_levels_number(&m);
    /* merges go through passes in a way of their own */
    m.leans = m.levels > 1 && !m.steps;
    for (int64_t i = 0; i < m.n; i++)
        m.leans &= m.b->nodes[i].op != NODE_LOAD || m.b->nodes[i].kid[0] < PLAN_MERGE;
    int rc = new_plan(&m, way.type);
    if (!rc && m.steps)
        rc = new_grid(&m, way.rows, way.columns);
    if (!rc)
        rc = make_passes(&m);
    if (!rc) {
        list_programs(m.p);
        measure(m.p);
    }
    if (!rc && m.steps)
        plan_grid_measure(m.p);
    if (rc || !m.makes)
        plan_free(m.p);
    else
        *out = m.p;
    return rc;
}

/* ---- The plan as a whole --------------------------------------------------------------------- */

int64_t plan_pool_bytes(const plan *p)
{
    return p->pool_words * (int64_t)sizeof(uint64_t);
}

void plan_fill_pool(const plan *p, const prog_number *values, uint64_t *pool)
{
    for (int64_t i = 0; i < p->nprograms; i++)
        prog_fill(p->programs[i], values, pool + p->programs[i]->pool_at);
}

plan *plan_ref(plan *p)
{
    if (p)
        __atomic_fetch_add(&p->refs, 1, __ATOMIC_RELAXED);
    return p;
}

void plan_free(plan *p)
{
    int64_t left = p ? __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) : 1;
    if (left > 0)
        return;
    kv_assert(left == 0, "a plan is given back %lld times too often", (long long)-left);
    for (int i = 0; i < p->all_passes; i++)
        prog_free(p->pass[i].program);
    mem_free(p->grid);
    mem_free(p);
}
