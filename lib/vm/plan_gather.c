/* The rows of a pass, gathered and scattered. Which arrays a program reads and writes its
 * instructions say. */
#include "vm/plan_gather.h"

/* Elements of a block, of each array, as many as of the blocks that programs work on: twice as many
 * take 1.1 to 1.2 times as long in rows of 1. */
enum { GATHER = 512 };

/* Returns true if gathered rows can take the place of a slot's, or it does not depend on them: the
 * input and what is printed have the present rows end to end. */
static bool can_gather(int slot)
{
    int kind = plan_slot_kind(slot);
    return kind == PLAN_NUMBER || (slot & PLAN_PRESENT && kind != PLAN_NORMAL);
}

/* The array of the key behind a slot that is no output of its own, or NULL. */
static void **array_of(const plan_arrays *a, int slot)
{
    return slot < PLAN_NORMAL ? (void **)(uintptr_t)plan_array_of(a, slot) : NULL;
}

static bool reads(const prog *p, int slot)
{
    int place = p->nregs + slot;
    for (int32_t i = 0; i < p->ninsts; i++)
        if (p->insts[i].a == place || p->insts[i].b == place || p->insts[i].c == place)
            return true;
    return false;
}

static bool writes(const prog *p, int slot)
{
    int place = p->nregs + slot;
    for (int32_t i = 0; i < p->ninsts; i++)
        if (p->insts[i].dst == place)
            return true;
    return false;
}

/* Lists the arrays that the program reads, or those that it only writes. It has no number for the
 * slots of the pass behind the last one that it uses. */
static void list_arrays(plan_gather *g, const runner *r, const plan_pass *pass, bool read)
{
    const prog *p = pass->elements;
    for (int s = 0; s < pass->nslots && s < p->nslots; s++) {
        void **array = array_of(r->a, pass->slot[s]);
        if (!array || reads(p, s) != read)
            continue;
        g->writes[g->n] = writes(p, s);
        g->list[g->n++] = (row_move){.array = *array, .bytes = r->a->row * p->slot_bytes[s]};
    }
}

/* Rows that fit the room, each array at a line of its own. */
static int64_t count_rows(const plan_gather *g, int64_t row)
{
    int64_t bytes = 0, most = GATHER / row;
    for (int i = 0; i < g->n; i++)
        bytes += g->list[i].bytes;
    int64_t fit = ((int64_t)sizeof g->room - g->n * MEM_ALIGN) / (bytes > 0 ? bytes : 1);
    return fit < most ? fit : most;
}

/* The arrays that the program runs on: rooms instead of what is listed. */
static void place_rooms(plan_gather *g, const plan_pass *pass)
{
    char *room = g->room;
    for (int i = 0; i < g->n; i++) {
        g->list[i].room = room;
        room += mem_aligned(g->rows * g->list[i].bytes);
        if (g->writes[i])
            g->written[g->nwritten++] = g->list[i];
    }
    for (int s = 0; s < pass->nslots; s++) {
        void **array = array_of(&g->arrays, pass->slot[s]);
        for (int i = 0; array && i < g->n; i++)
            if (g->list[i].array == *array) {
                *array = g->list[i].room;
                break;
            }
    }
}

void plan_gather_init(plan_gather *g, const runner *r, const plan_pass *pass)
{
    bool can = pass->nsums == 0;
    g->n = g->nwritten = 0;
    g->rows = 0;
    g->arrays = *r->a;
    g->arrays.far = false;
    for (int s = 0; s < pass->nslots; s++)
        can &= can_gather(pass->slot[s]);
    if (!can)
        return;
    list_arrays(g, r, pass, true);
    g->nread = g->n;
    list_arrays(g, r, pass, false);
    int64_t rows = count_rows(g, r->a->row);
    if (rows < 2)
        return;
    g->rows = rows;
    place_rooms(g, pass);
}

void plan_gather_run(plan_gather *g, runner *r, const plan_pass *pass, int64_t k, int64_t n,
                     int64_t more)
{
    const plan_arrays *a = r->a;
    const int64_t *rows = a->rows + k;
    int64_t at = k * a->row, m = n * a->row;
    const void *in = pass->reads_input ? a->input_rows(a->arg, at, m, r->input) : NULL;
    gather_each(g->list, g->nread, rows, n, more, in, a->row * kv_dtype_bytes(a->input_dtype));
    r->a = &g->arrays;
    plan_work_chunk(r, pass, &(chunk){0, at, m, in, 0, NULL});
    r->a = a;
    scatter_each(g->written, g->nwritten, rows, n, more);
}
