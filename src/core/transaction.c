/* What a transaction remembers, and how it ends. */
#include "core/transaction.h"

#include "base/mem.h"

int transaction_begin(transaction *t, const slot_table *slots, uint64_t changes, kv_err *e)
{
    transaction_slot *kept = mem_alloc(slots->n, sizeof *kept, e);
    if (!kept)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < slots->n; i++) {
        const slot *s = &slots->items[i];
        kept[i] = (transaction_slot){kv_array_ref(s->stored), s->pushes, s->updates};
    }
    *t = (transaction){.is_open = true, .slots = kept, .nslots = slots->n, .changes = changes};
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

void transaction_rollback(transaction *t, slot_table *slots, updater *current, uint64_t *changes,
                          updater *gone)
{
    slot_truncate(slots, t->nslots);
    for (int64_t i = 0; i < t->nslots; i++) {
        slot *s = &slots->items[i];
        kv_array *now = s->stored;
        s->stored = t->slots[i].stored;
        t->slots[i].stored = now;
        s->pushes = t->slots[i].pushes;
        s->updates = t->slots[i].updates;
    }
    *changes = t->changes;
    if (t->has_updater) {
        updater now = *current;
        *current = t->updater;
        t->updater = now;
    }
    transaction_commit(t, gone); /* what it holds now is what nobody needs */
}

void transaction_commit(transaction *t, updater *gone)
{
    for (int64_t i = 0; i < t->nslots; i++)
        kv_array_unref(t->slots[i].stored);
    mem_free(t->slots);
    *gone = t->has_updater ? t->updater : (updater){0};
    *t = (transaction){0};
}
