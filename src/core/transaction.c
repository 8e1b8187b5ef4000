/* A transaction remembers slots and updater, and puts them back or forgets them. */
#include "core/transaction.h"

#include "base/kv_assert.h"
#include "base/mem.h"

int transaction_begin(transaction *t, const slot_table *slots, const updater *u,
                      const compression *c, uint64_t changes, kv_err *e)
{
    kv_assert(!t->is_open, "a transaction begins in one that keeps %lld slots",
              (long long)t->nslots);
    transaction_slot *kept = mem_alloc(slots->n, sizeof *kept, e);
    if (!kept)
        return KV_E_MEMORY;
    transaction begun = {.is_open = true, .slots = kept, .changes = changes, .compression = *c};
    for (int64_t i = 0; i < slots->n; i++) {
        const slot *s = &slots->items[i];
        slot_state *state;
        residuals *owed;
        if (residuals_share(&owed, s->residuals, e) || slot_state_share(&state, s->state, e)) {
            residuals_free(owed);
            updater none;
            transaction_commit(&begun, &none);
            return KV_E_MEMORY;
        }
        kept[begun.nslots++] =
            (transaction_slot){kv_array_ref(s->stored), s->pushes, s->updates, state, owed};
    }
    if (u->kind == UPDATER_RULE)
        optimizer_mark_take(u->optimizer, &begun.mark);
    *t = begun;
    return KV_OK;
}

bool transaction_keep_updater(transaction *t, const updater *old)
{
    if (!t->is_open || t->has_updater)
        return false;
    t->has_updater = true;
    t->updater = *old;
    return true;
}

void transaction_rollback(transaction *t, slot_table *slots, updater *current, compression *c,
                          uint64_t *changes, updater *gone)
{
    *gone = (updater){0};
    if (!kv_assert(t->is_open && slots->n >= t->nslots,
                   "a transaction that began with %lld slots rolls %lld back", (long long)t->nslots,
                   (long long)slots->n))
        return;
    slot_truncate(slots, t->nslots);
    for (int64_t i = 0; i < t->nslots; i++) {
        slot *s = &slots->items[i];
        kv_array *now = s->stored;
        s->stored = t->slots[i].stored;
        t->slots[i].stored = now;
        s->pushes = t->slots[i].pushes;
        s->updates = t->slots[i].updates;
        slot_state *state = s->state;
        s->state = t->slots[i].state;
        t->slots[i].state = state;
        residuals *owed = s->residuals;
        s->residuals = t->slots[i].residuals;
        t->slots[i].residuals = owed;
    }
    *changes = t->changes;
    *c = t->compression;
    if (t->has_updater) {
        updater now = *current;
        *current = t->updater;
        t->updater = now;
    }
    if (current->kind == UPDATER_RULE)
        optimizer_mark_restore(current->optimizer, &t->mark);
    transaction_commit(t, gone); /* frees the state that was undone */
}

static void transaction_slot_release(transaction_slot *s)
{
    kv_array_unref(s->stored);
    slot_state_free(s->state);
    residuals_free(s->residuals);
}

void transaction_commit(transaction *t, updater *gone)
{
    kv_assert(t->is_open || (t->nslots == 0 && !t->has_updater),
              "a transaction that is not open keeps %lld slots", (long long)t->nslots);
    for (int64_t i = 0; i < t->nslots; i++)
        transaction_slot_release(&t->slots[i]);
    mem_free(t->slots);
    optimizer_mark_release(&t->mark);
    *gone = t->has_updater ? t->updater : (updater){0};
    *t = (transaction){0};
}
