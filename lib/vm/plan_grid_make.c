/* From the graph of a rule to the steps of a plan by steps.
 *
 * Every node has a level: how many reductions and products must have ended before it. At each level
 * there is a step for each extent of which something is needed, the shorter extents first, so that
 * longer ones read what those computed; then the products. Stores wait for the last level, so that
 * every load gives what the array held before the update.
 */
#include <string.h>

#include "array/dot.h"
#include "base/kv_assert.h"
#include "vm/plan_graph.h"
#include "vm/plan_grid.h"

typedef struct maker {
    prog_builder *b;
    plan_grid *g;
    int64_t n;       /* nodes */
    int32_t *level;  /* of each node */
    int32_t *buffer; /* of each node that is kept in one, else -1 */
    bool *live, *kept, *needed;
    prog_value *emitted;
    int32_t last; /* level */
    int64_t draws;
    int64_t program_bytes;
    kv_err *e;
} maker;

static const node *node_at(const maker *m, int64_t i)
{
    return &m->b->nodes[i];
}

static bool is_leaf(const node *n)
{
    return plan_graph_kids(n) == 0;
}

/* ---- What is kept ---------------------------------------------------------------------------- */

/* The extent of the array that a slot stands for. Numbers to be printed are what they are. */
static prog_extent slot_extent(const maker *m, const node_store *s)
{
    if (s->slot >= PLAN_COLUMN_STATE)
        return (prog_extent){PROG_ONE, PROG_COLUMNS};
    if (s->slot >= PLAN_ROW_PRINT)
        return node_at(m, s->value)->extent;
    if (s->slot >= PLAN_ROW_STATE)
        return (prog_extent){PROG_ROWS, PROG_ONE};
    return (prog_extent){PROG_ROWS, PROG_COLUMNS};
}

/* A value that is read by elements of another extent is kept, but for arrays of the key. */
static void keep_if_repeated(maker *m, int32_t i, prog_extent reader)
{
    const node *n = node_at(m, i);
    m->kept[i] |= !is_leaf(n) && !plan_graph_same(n->extent, reader);
}

static void find_kept(maker *m)
{
    for (int64_t i = 0; i < m->n; i++) {
        const node *n = node_at(m, i);
        bool waits = plan_graph_waits(n), reduces = n->op == NODE_SUM;
        m->kept[i] |= waits;
        for (int j = 0; j < plan_graph_kids(n); j++) {
            m->level[i] = m->level[n->kid[j]] > m->level[i] ? m->level[n->kid[j]] : m->level[i];
            if (m->live[i] && waits && !reduces)
                m->kept[n->kid[j]] = true;
            else if (m->live[i] && !waits)
                keep_if_repeated(m, n->kid[j], n->extent);
        }
        m->level[i] += waits;
        m->last = m->live[i] && m->level[i] > m->last ? m->level[i] : m->last;
    }
    for (int64_t s = 0; s < m->b->nstores; s++)
        keep_if_repeated(m, m->b->stores[s].value, slot_extent(m, &m->b->stores[s]));
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static int add_step(maker *m, grid_kind kind, prog_extent extent, grid_step **out)
{
    plan_grid *g = m->g;
    int rc = mem_grow(&g->steps, &g->steps_cap, g->nsteps + 1, sizeof *g->steps, m->e);
    if (rc)
        return rc;
    *out = &g->steps[g->nsteps++];
    **out = (grid_step){.kind = kind, .extent = extent};
    return KV_OK;
}

static int add_buffer(maker *m, prog_extent extent, uint8_t type, int *out)
{
    plan_grid *g = m->g;
    int rc = mem_grow(&g->buffers, &g->buffers_cap, g->nbuffers + 1, sizeof *g->buffers, m->e);
    if (rc)
        return rc;
    *out = (int)g->nbuffers;
    g->buffers[g->nbuffers++] =
        (grid_buffer){.extent = extent, .type = (prog_type)type, .first = -1};
    return KV_OK;
}

static int add_buffers(maker *m)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < m->n && !rc; i++) {
        m->buffer[i] = -1;
        if (m->live[i] && m->kept[i])
            rc = add_buffer(m, node_at(m, i)->extent, node_at(m, i)->type, &m->buffer[i]);
    }
    return rc;
}

/* The number of a slot among those of a step. Without memory the program fails. */
static int step_slot(maker *m, prog_builder *to, grid_step *step, grid_slot slot)
{
    int64_t i = 0;
    while (i < step->nslots && step->slots[i].slot != slot.slot)
        i++;
    if (i == step->nslots) {
        if (mem_grow(&step->slots, &step->slots_cap, i + 1, sizeof slot, m->e)) {
            to->failed = KV_E_MEMORY;
            return 0;
        }
        step->slots[step->nslots++] = slot;
    }
    return (int)i;
}

static int buffer_slot(maker *m, prog_builder *to, grid_step *step, int buffer)
{
    const grid_buffer *b = &m->g->buffers[buffer];
    return step_slot(m, to, step,
                     (grid_slot){PLAN_BUFFER + buffer, b->extent,
                                 kv_dtype_bytes(prog_dtype(b->type))});
}

/* ---- The program of a step ------------------------------------------------------------------- */

/* Returns true if a node has its value from a buffer in the step of a level and extent. */
static bool is_made(const maker *m, int64_t i, int32_t level, prog_extent extent)
{
    const node *n = node_at(m, i);
    return m->kept[i] &&
           (plan_graph_waits(n) || m->level[i] < level || !plan_graph_same(n->extent, extent));
}

/* Returns true if the step of a level and extent has to give the terms of reduction i. */
static bool is_reduced(const maker *m, int64_t i, int32_t level, prog_extent extent)
{
    const node *n = node_at(m, i);
    return m->live[i] && n->op == NODE_SUM && m->level[i] == level + 1 &&
           plan_graph_same(node_at(m, n->kid[0])->extent, extent);
}

static bool is_kept_here(const maker *m, int64_t i, int32_t level, prog_extent extent)
{
    const node *n = node_at(m, i);
    return m->live[i] && m->kept[i] && !plan_graph_waits(n) && m->level[i] == level &&
           plan_graph_same(n->extent, extent);
}

static bool is_stored_here(const maker *m, int64_t s, int32_t level, prog_extent extent)
{
    return level == m->last && plan_graph_same(slot_extent(m, &m->b->stores[s]), extent);
}

/* Marks the nodes that the program of a step computes or reads. False when there are none. */
static bool find_needed(maker *m, int32_t level, prog_extent extent)
{
    bool any = false;
    memset(m->needed, 0, (size_t)m->n * sizeof *m->needed);
    for (int64_t i = 0; i < m->n; i++) {
        if (is_kept_here(m, i, level, extent))
            any = m->needed[i] = true;
        if (is_reduced(m, i, level, extent))
            any = m->needed[node_at(m, i)->kid[0]] = true;
    }
    for (int64_t s = 0; s < m->b->nstores; s++)
        if (is_stored_here(m, s, level, extent))
            any = m->needed[m->b->stores[s].value] = true;
    for (int64_t i = m->n - 1; i >= 0; i--)
        for (int j = 0; m->needed[i] && !is_made(m, i, level, extent) &&
                        j < plan_graph_kids(node_at(m, i));
             j++)
            m->needed[node_at(m, i)->kid[j]] = true;
    return any;
}

static prog_value emit(maker *m, grid_step *step, prog_builder *to, int64_t i, int32_t level)
{
    const node *n = node_at(m, i);
    prog_type type = (prog_type)n->type;
    if (is_made(m, i, level, step->extent))
        return prog_load(to, buffer_slot(m, to, step, m->buffer[i]), prog_dtype(type), type);
    if (n->op == NODE_LOAD) {
        grid_slot slot = {n->kid[0], n->extent, kv_dtype_bytes((kv_dtype)n->dtype)};
        return prog_load(to, step_slot(m, to, step, slot), (kv_dtype)n->dtype, type);
    }
    return plan_graph_apply(to, n, m->emitted);
}

static int add_reduction(maker *m, grid_step *step, prog_builder *to, int64_t i)
{
    const node *n = node_at(m, i);
    prog_type type = (prog_type)n->type;
    int which = (int)step->nreductions;
    int rc = mem_grow(&step->reductions, &step->reductions_cap, which + 1,
                      sizeof *step->reductions, m->e);
    if (rc)
        return rc;
    step->reductions[step->nreductions++] =
        (grid_reduction){plan_graph_fold(n), plan_graph_over(n), type, m->buffer[i]};
    grid_slot slot = {PLAN_TERMS + which, step->extent, kv_dtype_bytes(prog_dtype(type))};
    prog_store(to, step_slot(m, to, step, slot), prog_dtype(type), m->emitted[n->kid[0]]);
    return KV_OK;
}

/* The arrays of a key are written at once; a vector has a buffer until all steps have run. */
static int add_store(maker *m, grid_step *step, prog_builder *to, const node_store *s)
{
    plan_grid *g = m->g;
    prog_value value = m->emitted[s->value];
    int buffer, rc;
    if (s->slot < PLAN_ROW_STATE) {
        grid_slot slot = {s->slot, slot_extent(m, s), kv_dtype_bytes(s->dtype)};
        prog_store(to, step_slot(m, to, step, slot), s->dtype, value);
        return KV_OK;
    }
    if ((rc = mem_grow(&g->results, &g->results_cap, g->nresults + 1, sizeof *g->results, m->e)) ||
        (rc = add_buffer(m, step->extent, node_at(m, s->value)->type, &buffer)))
        return rc;
    g->results[g->nresults++] = (grid_result){s->slot, buffer};
    prog_store(to, buffer_slot(m, to, step, buffer), s->dtype, value);
    return KV_OK;
}

static int fill_program(maker *m, grid_step *step, prog_builder *to, int32_t level)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < m->n; i++)
        m->emitted[i] = m->needed[i] ? emit(m, step, to, i, level) : -1;
    for (int64_t i = 0; i < m->n && !rc; i++) {
        if (is_kept_here(m, i, level, step->extent))
            prog_store(to, buffer_slot(m, to, step, m->buffer[i]),
                       prog_dtype((prog_type)node_at(m, i)->type), m->emitted[i]);
        if (is_reduced(m, i, level, step->extent))
            rc = add_reduction(m, step, to, i);
    }
    for (int64_t s = 0; s < m->b->nstores && !rc; s++)
        if (is_stored_here(m, s, level, step->extent))
            rc = add_store(m, step, to, &m->b->stores[s]);
    return rc;
}

static int add_elements(maker *m, int32_t level, prog_extent extent)
{
    grid_step *step;
    if (!find_needed(m, level, extent))
        return KV_OK;
    prog_builder *to = prog_builder_beside(m->b, m->e);
    int rc = to ? add_step(m, GRID_ELEMENTS, extent, &step) : KV_E_MEMORY;
    if (!rc)
        rc = fill_program(m, step, to, level);
    if (!rc)
        rc = prog_finish(to, &step->program, m->e);
    prog_builder_free(to);
    if (rc)
        return rc;
    int64_t bytes = prog_scratch_bytes(step->program);
    m->program_bytes = bytes > m->program_bytes ? bytes : m->program_bytes;
    for (int64_t s = 0; s < step->nslots; s++) {
        int slot = step->slots[s].slot, i = plan_slot_index(slot);
        if (plan_slot_kind(slot) == PLAN_NORMAL && i >= m->draws)
            m->draws = i + 1;
    }
    return KV_OK;
}

/* The products and turned matrices that the values of a level make possible. */
static int add_products(maker *m, int32_t level)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < m->n && !rc; i++) {
        const node *n = node_at(m, i);
        grid_step *step;
        if (!m->live[i] || !plan_graph_waits(n) || n->op == NODE_SUM || m->level[i] != level + 1)
            continue;
        rc = add_step(m, n->op == NODE_MATMUL ? GRID_MATMUL : GRID_TURNED, n->extent, &step);
        if (rc)
            break;
        step->a = m->buffer[n->kid[0]];
        step->b = n->kid[1] < 0 ? step->a : m->buffer[n->kid[1]];
        step->to = m->buffer[i];
        step->depth = node_at(m, n->kid[0])->extent.columns;
    }
    return rc;
}

static int add_level(maker *m, int32_t level)
{
    int rc = KV_OK;
    for (int axes = 0; axes <= 2 && !rc; axes++)
        for (uint8_t rows = 0; rows <= PROG_COLUMNS && !rc; rows++)
            for (uint8_t columns = 0; columns <= PROG_COLUMNS && !rc; columns++)
                if ((rows > 0) + (columns > 0) == axes)
                    rc = add_elements(m, level, (prog_extent){rows, columns});
    return rc ? rc : add_products(m, level);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void use_buffer(plan_grid *g, int buffer, int step)
{
    grid_buffer *b = &g->buffers[buffer];
    b->first = b->first < 0 ? step : b->first;
    b->last = step;
}

static void find_uses(plan_grid *g)
{
    for (int k = 0; k < (int)g->nsteps; k++) {
        const grid_step *step = &g->steps[k];
        for (int64_t s = 0; s < step->nslots; s++)
            if (plan_slot_kind(step->slots[s].slot) == PLAN_BUFFER)
                use_buffer(g, plan_slot_index(step->slots[s].slot), k);
        for (int64_t i = 0; i < step->nreductions; i++)
            use_buffer(g, step->reductions[i].to, k);
        if (step->kind != GRID_ELEMENTS) {
            use_buffer(g, step->a, k);
            use_buffer(g, step->b, k);
            use_buffer(g, step->to, k);
        }
    }
    for (int64_t i = 0; i < g->nresults; i++)
        use_buffer(g, g->results[i].buffer, (int)g->nsteps);
}

static int64_t buffer_bytes(const plan_grid *g, const grid_buffer *b)
{
    return mem_aligned(plan_grid_length(g, b->extent.rows) *
                       plan_grid_length(g, b->extent.columns) *
                       kv_dtype_bytes(prog_dtype(b->type)));
}

/* A buffer has the memory of one of its size whose last user has run, if there is one: `next` of
 * that is where it went. */
static void place_buffers(plan_grid *g)
{
    for (int64_t i = 0; i < g->nbuffers; i++) {
        grid_buffer *b = &g->buffers[i];
        int64_t bytes = buffer_bytes(g, b), j = 0;
        bool taken = true;
        for (; j < i && taken; j++) {
            const grid_buffer *old = &g->buffers[j];
            taken = buffer_bytes(g, old) != bytes;
            for (int64_t k = 0; k < i && !taken; k++)
                taken = g->buffers[k].offset == old->offset && g->buffers[k].last >= b->first &&
                        g->buffers[k].first <= b->last;
        }
        b->offset = taken ? g->buffer_bytes : g->buffers[j - 1].offset;
        g->buffer_bytes += taken ? bytes : 0;
    }
}

static int64_t partial_doubles(const plan_grid *g, const grid_step *step)
{
    int64_t rows = plan_grid_length(g, step->extent.rows);
    int64_t columns = plan_grid_length(g, step->extent.columns), n = 0;
    int64_t parts = plan_grid_parts(rows, columns);
    for (int64_t i = 0; i < step->nreductions; i++)
        n += step->reductions[i].over == PLAN_OVER_COLUMNS ? rows
             : step->reductions[i].over == PLAN_OVER_ROWS  ? parts * columns
                                                           : parts;
    return n;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void measure(plan_grid *g)
{
    find_uses(g);
    place_buffers(g);
    for (int64_t k = 0; k < g->nsteps; k++) {
        const grid_step *step = &g->steps[k];
        g->most_slots = larger(g->most_slots, step->nslots);
        g->most_reductions = larger(g->most_reductions, step->nreductions);
        g->partial_bytes =
            larger(g->partial_bytes, partial_doubles(g, step) * (int64_t)sizeof(double));
        if (step->kind == GRID_MATMUL)
            g->product_bytes = larger(
                g->product_bytes,
                dot_product_bytes(plan_grid_length(g, step->extent.rows),
                                  plan_grid_length(g, step->depth),
                                  plan_grid_length(g, step->extent.columns),
                                  prog_dtype(g->buffers[step->to].type)));
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int make_steps(maker *m)
{
    arena memory = {0};
    size_t n = (size_t)m->n + 1;
    bool *flags = arena_alloc(&memory, 3 * n, m->e);
    int32_t *lists = flags ? arena_alloc(&memory, 3 * n * sizeof *lists, m->e) : NULL;
    int rc = lists ? KV_OK : KV_E_MEMORY;
    if (!rc) {
        memset(flags, 0, 3 * n);
        memset(lists, 0, 3 * n * sizeof *lists);
        m->live = flags;
        m->kept = flags + n;
        m->needed = flags + 2 * n;
        m->level = lists;
        m->buffer = lists + n;
        m->emitted = lists + 2 * n;
        plan_graph_live(m->b, m->live);
        find_kept(m);
        rc = add_buffers(m);
    }
    for (int32_t level = 0; level <= m->last && !rc; level++)
        rc = add_level(m, level);
    arena_release(&memory);
    return rc;
}

int plan_make_steps(plan **out, prog_builder *b, prog_type type, int64_t rows, int64_t columns,
                    kv_err *e)
{
    kv_err unused = {0};
    maker m = {.b = b, .n = b->nnodes, .e = e ? e : &unused};
    if (b->failed) {
        prog *none;
        return prog_finish(b, &none, m.e); /* says why */
    }
    if (!out)
        return KV_OK;
    plan *p = mem_zalloc(1, sizeof *p, m.e);
    if (!p)
        return KV_E_MEMORY;
    p->refs = 1;
    int rc = (p->grid = m.g = mem_zalloc(1, sizeof *m.g, m.e)) ? KV_OK : KV_E_MEMORY;
    if (!rc) {
        p->type = type;
        m.g->rows = rows;
        m.g->columns = columns;
        rc = make_steps(&m);
    }
    if (!rc)
        rc = plan_list_programs(p, m.e);
    if (rc) {
        plan_free(p);
        return rc;
    }
    measure(m.g);
    p->ndraws = (int)m.draws;
    p->program_bytes = m.program_bytes;
    *out = p;
    return KV_OK;
}
