/* A ranking needs its terms of a whole row before the plan's own program runs on it, so it has a
 * program of its own: a copy of the part of the graph that makes them. */
#include "vm/merge_rank.h"

#include <string.h>

#include "base/mem.h"
#include "vm/merge.h"
#include "vm/plan_graph.h"

/* A copy in the making. */
typedef struct copy {
    const prog_builder *from;
    prog_builder *to;
    bool *needed;     /* of each value of `from` */
    prog_value *made; /* and what it is in `to` */
    int16_t *slots;
    int nslots;
} copy;

static int slot_of(copy *c, int slot)
{
    int i = 0;
    while (i < c->nslots && c->slots[i] != slot)
        i++;
    if (i == c->nslots)
        c->slots[c->nslots++] = (int16_t)slot;
    return i;
}

static void find_needed(copy *c, prog_value x)
{
    c->needed[x] = true;
    for (prog_value i = x; i >= 0; i--)
        for (int k = 0; c->needed[i] && k < plan_graph_kids(&c->from->nodes[i]); k++)
            c->needed[c->from->nodes[i].kid[k]] = true;
}

static bool is_rank(const node *n)
{
    return n->op == NODE_LOAD && n->kid[0] >= MERGE_RANK && n->kid[0] < MERGE_BASE;
}

static int copy_nodes(copy *c, prog_value x, kv_err *e)
{
    for (prog_value i = 0; i <= x; i++) {
        const node *n = &c->from->nodes[i];
        prog_value kid[3] = {-1, -1, -1};
        if (!c->needed[i])
            continue;
        if (plan_graph_waits(n) || is_rank(n))
            return kv_err_set(e, KV_E_USAGE,
                              "rowrank takes what follows from the elements alone, not from a "
                              "reduction or another rank");
        for (int k = 0; k < plan_graph_kids(n); k++)
            kid[k] = c->made[n->kid[k]];
        c->made[i] = n->op == NODE_LOAD ? prog_load(c->to, slot_of(c, n->kid[0]),
                                                    (kv_dtype)n->dtype, (prog_type)n->type)
                                        : plan_graph_apply(c->to, n, kid);
    }
    return KV_OK;
}

int merge_rank_make(prog **out, int16_t **slots, int *terms, const prog_builder *b, prog_value x,
                    kv_err *e)
{
    copy c = {.from = b,
              .to = prog_builder_new(e),
              .needed = mem_zalloc(x + 1, sizeof *c.needed, e),
              .made = mem_zalloc(x + 1, sizeof *c.made, e),
              .slots = mem_zalloc(x + 1, sizeof *c.slots, e)};
    int code = c.to && c.needed && c.made && c.slots ? KV_OK : KV_E_MEMORY;
    if (!code) {
        find_needed(&c, x);
        code = copy_nodes(&c, x, e);
    }
    if (!code) {
        prog_type type = prog_value_type(b, x);
        prog_store(c.to, c.nslots, prog_dtype(type), c.made[x]);
        code = prog_finish(c.to, out, e);
    }
    if (!code) {
        *slots = c.slots;
        *terms = c.nslots;
        c.slots = NULL;
    }
    mem_free(c.slots);
    mem_free(c.made);
    mem_free(c.needed);
    prog_builder_free(c.to);
    return code;
}
