/* Which outs belong to which group, and whether the groups stay independent of each other. */
#include "core/call_outs.h"

#include "array/device.h"
#include "core/call_gpu.h"

/* The uses of outs come before all others: the engine wants writes before reads. */
void call_expect_outs(call *c, int64_t n)
{
    if (n > c->nvalues) /* there is no room for more; see USES */
        return;
    c->nouts = n;
    c->op.nuses = n;
}

void call_drop_outs(call *c)
{
    if (c->nouts == 0)
        return;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        g->use -= c->nouts;
        g->nouts = 0;
    }
    c->uses += c->nouts;
    c->op.uses = c->uses;
    c->op.nuses -= c->nouts;
    c->nouts = 0;
}

static bool is_plain(call *c)
{
    for (int64_t i = 0; i < c->nouts; i++) {
        c->gpus |= call_is_on_gpu(c->outs[i]);
        if (c->outs[i]->storage != KV_DEFAULT)
            return false;
    }
    for (int64_t i = 0; i < c->ngroups; i++) {
        const call_group *g = &c->groups[i];
        if (g->sparse || g->mixed || !g->target)
            return false;
    }
    return true;
}

static void share_in_place(call *c)
{
    c->outs = c->values;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        g->first_out = g->first;
        g->nouts = g->n;
    }
}

/* Whether the outs come in the order of the groups, which then know theirs. */
static bool share_out(call *c, const kv_key *okeys, kv_array *const *outs)
{
    int64_t taken = 0, number = -1;
    c->outs = outs;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        g->first_out = taken;
        while (taken < c->nouts) {
            number = slot_find(c->table, &okeys[taken], number + 1);
            if (number != g->number)
                break;
            taken++;
        }
        g->nouts = taken - g->first_out;
    }
    return taken == c->nouts;
}

static engine_lot lot_of(const void *arg, int64_t i)
{
    const call *c = arg;
    const call_group *g = &c->groups[i];
    return (engine_lot){g->use, g->nuses, g->first_out, g->nouts};
}

void call_take_outs(call *c, const kv_key *okeys, kv_array *const *outs, bool in_place)
{
    bool fit = true;
    if (c->nouts == 0)
        return;
    if (in_place)
        share_in_place(c);
    else
        fit = share_out(c, okeys, outs);
    if (fit && is_plain(c)) {
        for (int64_t i = 0; i < c->nouts; i++)
            c->uses[i] = (engine_use){.var = array_var(c->outs[i]), .write = true};
        fit = engine_apart(&c->op, c->ngroups, lot_of, c);
    } else {
        fit = false;
    }
    if (!fit)
        call_drop_outs(c);
}
