/* A transaction remembers slots and updater, and puts them back or forgets them. */
#include "core/store.h"

#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"

int transaction_begin(transaction *t, const slot_table *slots, const updater *u,
                      const compression *c, uint64_t changes, kv_err *e)
{
    kv_assert(!t->is_open, "a transaction begins in one that keeps %lld slots",
              (long long)t->nslots);
    slot *kept = mem_alloc(slots->n, sizeof *kept, e);
    if (!kept)
        return KV_E_MEMORY;
    transaction begun = {.is_open = true, .slots = kept, .changes = changes, .compression = *c};
    for (int64_t i = 0; i < slots->n; i++) {
        slot s = slots->items[i];
        if (residuals_share(&s.residuals, s.residuals, e) ||
            slot_state_share(&s.state, s.state, e)) {
            residuals_free(s.residuals);
            updater none;
            transaction_commit(&begun, &none);
            return KV_E_MEMORY;
        }
        kv_array_ref(s.stored);
        kept[begun.nslots++] = s;
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

int transaction_keep_keys(transaction *t, const slot_table *slots, kv_err *e)
{
    if (!t->is_open || t->has_keys)
        return KV_OK;
    kv_assert(slots->n >= t->nslots, "%lld of %lld slots are left, and none was deleted",
              (long long)slots->n, (long long)t->nslots);
    for (int64_t i = 0; i < t->nslots; i++) {
        const slot *s = &slots->items[i];
        kv_key key = s->key;
        if (key.name && !(key.name = mem_text(key.name, strlen(key.name), e))) {
            while (i-- > 0) {
                mem_free((char *)t->slots[i].key.name);
                t->slots[i].key = slots->items[i].key;
            }
            return KV_E_MEMORY;
        }
        t->slots[i].key = key;
        t->slots[i].told_ignored = s->told_ignored;
        t->slots[i].loaded = s->loaded;
    }
    t->has_keys = true;
    t->lost_keys = slots->lost_keys;
    return KV_OK;
}

/* Drops new keys, and gives the others what they held. */
static void restore_slots(transaction *t, slot_table *slots)
{
    if (!kv_assert(slots->n >= t->nslots,
                   "a transaction that began with %lld slots rolls %lld back", (long long)t->nslots,
                   (long long)slots->n))
        return;
    slot_truncate(slots, t->nslots);
    for (int64_t i = 0; i < t->nslots; i++) {
        slot now = slots->items[i];
        slots->items[i] = t->slots[i];
        slots->items[i].told_ignored = now.told_ignored;
        t->slots[i] = now;
    }
}

void transaction_rollback(transaction *t, slot_table *slots, updater *current, compression *c,
                          uint64_t *changes, updater *gone)
{
    *gone = (updater){0};
    if (!kv_assert(t->is_open, "a transaction that is not open rolls %lld slots back",
                   (long long)slots->n))
        return;
    if (t->has_keys) {
        /* The slots are made anew, and take over all that the transaction kept. */
        slot_truncate(slots, 0);
        for (int64_t i = 0; i < t->nslots; i++) {
            slot_put_back(slots, &t->slots[i]);
            t->slots[i] = (slot){0};
        }
        slots->lost_keys = t->lost_keys;
    } else
        restore_slots(t, slots);
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

void transaction_commit(transaction *t, updater *gone)
{
    kv_assert(t->is_open || (t->nslots == 0 && !t->has_updater),
              "a transaction that is not open keeps %lld slots", (long long)t->nslots);
    for (int64_t i = 0; i < t->nslots; i++) {
        if (!t->has_keys) /* the table's */
            t->slots[i].key.name = NULL;
        slot_release(&t->slots[i]);
    }
    mem_free(t->slots);
    optimizer_mark_release(&t->mark);
    *gone = t->has_updater ? t->updater : (updater){0};
    *t = (transaction){0};
}
