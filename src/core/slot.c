/* The table of slots: a growing array, and a map from keys to places in it. */
#include "core/slot.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/utf8.h"

int slot_check_kind(const slot_table *t, const kv_key *key, kv_err *e)
{
    if (slot_count(t) == 0 || t->texts == (key->name != NULL))
        return KV_OK;
    slot_error(e, KV_E_KEY, key, NULL,
               key->name ? "this store holds integer keys, %s is a text key"
                         : "this store holds text keys, %s is an integer key",
               SLOT_KEY(key));
    if (key->name && *key->name && !key->name[strspn(key->name, "0123456789")])
        return kv_err_hint(e, "in quotes it is a text; the integer key is %.20s", key->name),
               KV_E_KEY;
    if (!key->name) {
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)key->id);
        if (slot_find(t, &(kv_key){.name = number}, -1) >= 0)
            return kv_err_hint(e, "there is a text key of these digits: \"%s\"", number), KV_E_KEY;
    }
    return kv_err_hint(e, "the keys of a store are all integers or all texts: kv_create makes "
                          "another store"),
           KV_E_KEY;
}

int slot_reserve(slot_table *t, int64_t n, kv_err *e)
{
    TRY(mem_grow(&t->items, &t->cap, t->n + n, sizeof *t->items, e));
    return map_reserve(&t->index, t->n + n, e);
}

int slot_add(slot_table *t, const kv_key *key, kv_array *stored, kv_err *e)
{
    slot s = {.key = {.id = key->name ? 0 : key->id}, .stored = stored};
    TRY(mem_grow(&t->items, &t->cap, t->n + 1, sizeof *t->items, e));
    if (key->name && !(s.key.name = mem_text(key->name, strlen(key->name), e)))
        return KV_E_MEMORY;
    int rc = map_put(&t->index, s.key, t->n, e);
    if (rc) {
        mem_free((char *)s.key.name);
        return rc;
    }
    t->texts = key->name != NULL;
    t->items[t->n++] = s;
    return KV_OK;
}

void slot_release(slot *s)
{
    kv_array_unref(s->stored);
    slot_state_free(s->state);
    residuals_free(s->residuals);
    mem_free((char *)s->key.name);
}

void slot_truncate(slot_table *t, int64_t n)
{
    kv_assert(n >= 0 && n <= t->n, "a table of %lld slots is cut to %lld", (long long)t->n,
              (long long)n);
    while (t->n > n) {
        slot *s = &t->items[--t->n];
        t->ngone -= s->gone;
        if (s->gone)
            continue;
        map_remove(&t->index, s->key);
        slot_release(s);
    }
    if (t->nascending > n)
        t->nascending = 0;
}

void slot_remove(slot_table *t, int64_t number)
{
    slot *s = &t->items[number];
    if (!kv_assert(number >= 0 && number < t->n && !s->gone, "slot %lld of %lld is removed",
                   (long long)number, (long long)t->n))
        return;
    map_remove(&t->index, s->key);
    slot_release(s);
    *s = (slot){.gone = true};
    t->ngone++;
    t->lost_keys = true;
    t->nascending = 0;
    for (; t->n > 0 && t->items[t->n - 1].gone; t->n--)
        t->ngone--;
}

void slot_settle(slot_table *t)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < t->n && t->ngone > 0; i++) {
        if (t->items[i].gone)
            continue;
        if (kept < i) {
            t->items[kept] = t->items[i];
            int rc = map_put(&t->index, t->items[i].key, kept, NULL);
            kv_assert(rc == KV_OK, "the map has lost key number %lld", (long long)i);
        }
        kept++;
    }
    t->n = t->ngone > 0 ? kept : t->n;
    t->ngone = 0;
}

int slot_rename(slot_table *t, int64_t number, const kv_key *key, kv_err *e)
{
    slot *s = &t->items[number];
    kv_key to = {.id = key->name ? 0 : key->id}, from = s->key;
    kv_assert(!key->name == !from.name, "slot %lld gets a key of the other kind",
              (long long)number);
    if (key->name && !(to.name = mem_text(key->name, strlen(key->name), e)))
        return KV_E_MEMORY;
    int rc = map_put(&t->index, to, number, e);
    if (rc) {
        mem_free((char *)to.name);
        return rc;
    }
    map_remove(&t->index, from);
    mem_free((char *)from.name);
    s->key = to;
    t->lost_keys = true;
    t->nascending = 0;
    return KV_OK;
}

void slot_put_back(slot_table *t, const slot *s)
{
    if (!kv_assert(t->n < t->cap, "%lld slots leave no room for one more", (long long)t->n))
        return;
    int rc = map_put(&t->index, s->key, t->n, NULL); /* the map does not shrink either */
    kv_assert(rc == KV_OK, "the map has no room for key number %lld", (long long)t->n);
    t->texts = s->key.name != NULL;
    t->items[t->n++] = *s;
}

typedef struct ranked {
    int64_t id, number;
} ranked;

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const ranked *)a)->id, y = ((const ranked *)b)->id;
    return (x > y) - (x < y);
}

/* Sorts the numbers of all slots anew, which pays because it happens once for many questions. */
static int sort_ascending(slot_table *t, kv_err *e)
{
    own_mem ranked *r = mem_alloc(t->n, sizeof *r, e);
    TRY(r ? mem_grow(&t->ascending, &t->ascending_cap, t->n, sizeof *t->ascending, e)
          : KV_E_MEMORY);
    for (int64_t i = 0; i < t->n; i++)
        r[i] = (ranked){t->items[i].key.id, i};
    qsort(r, (size_t)t->n, sizeof *r, by_id);
    for (int64_t i = 0; i < t->n; i++)
        t->ascending[i] = r[i].number;
    t->nascending = t->n;
    return KV_OK;
}

int slot_in_order(slot_table *t, int64_t i, int64_t *number, kv_err *e)
{
    *number = i;
    kv_assert(t->nascending <= t->n, "%lld of %lld slots are sorted", (long long)t->nascending,
              (long long)t->n);
    if (!kv_assert(i >= 0 && i < t->n && t->ngone == 0, "slot %lld of %lld is asked for",
                   (long long)i, (long long)t->n))
        return kv_assert_report(e);
    if (t->items[i].key.name)
        return KV_OK;
    TRY(t->nascending == t->n ? KV_OK : sort_ascending(t, e));
    *number = t->ascending[i];
    return KV_OK;
}

void slot_table_release(slot_table *t)
{
    slot_truncate(t, 0);
    map_release(&t->index);
    mem_free(t->items);
    mem_free(t->ascending);
    *t = (slot_table){0};
}

int slot_fetch(slot *s, bool states, kv_err *e)
{
    TRY(array_fetch(s->stored, e));
    slot_state *kept = states ? s->state : NULL;
    if (kept && kept->master)
        TRY(array_fetch(kept->master, e));
    for (int i = 0; kept && i < PLAN_MAX_STATES; i++)
        if (kept->arrays[i])
            TRY(array_fetch(kept->arrays[i], e));
    return KV_OK;
}

void slot_forget(slot *s)
{
    slot_state_free(s->state);
    s->state = NULL;
    s->updates = 0;
}

uint64_t slot_hash(const kv_key *key)
{
    uint64_t h = (uint64_t)key->id;
    for (const char *c = key->name; c && *c; c++)
        h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    return h * 0x9e3779b97f4a7c15u;
}

int slot_refuse_inited(const kv_key *key, kv_err *e)
{
    return slot_error(e, KV_E_KEY, key, "init makes new keys; push changes this one",
                      "key %s is initialised already", SLOT_KEY(key));
}

int slot_refuse_unknown(const kv_key *key, kv_err *e)
{
    return slot_error(e, KV_E_KEY, key, "init it first", "key %s was never initialised",
                      SLOT_KEY(key));
}

int slot_error(kv_err *e, kv_code code, const kv_key *key, const char *hint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    kv_err_vset(e, code, fmt, ap);
    va_end(ap);
    if (hint)
        kv_err_hint(e, "%s", hint);
    kv_err_key(e, key);
    return code;
}

const char *slot_key_text(char out[SLOT_KEY_TEXT], const kv_key *key)
{
    if (!key->name) {
        snprintf(out, SLOT_KEY_TEXT, "%lld", (long long)key->id);
        return out;
    }
    size_t n = utf8_cut(key->name, strlen(key->name), SLOT_KEY_TEXT - 6);
    snprintf(out, SLOT_KEY_TEXT, "\"%.*s%s\"", (int)n, key->name, key->name[n] ? "..." : "");
    return out;
}

/* ---- States and residuals: sharing and giving back ---- */

int slot_state_share(slot_state **out, const slot_state *s, kv_err *e)
{
    *out = NULL;
    if (!s)
        return KV_OK;
    slot_state *copy = mem_alloc(1, sizeof *copy, e);
    if (!copy)
        return KV_E_MEMORY;
    *copy = *s;
    kv_array_ref(copy->master);
    for (int i = 0; i < PLAN_MAX_STATES; i++)
        kv_array_ref(copy->arrays[i]);
    *out = copy;
    return KV_OK;
}

void slot_state_free(slot_state *s)
{
    if (!s)
        return;
    kv_array_unref(s->master);
    for (int i = 0; i < PLAN_MAX_STATES; i++)
        kv_array_unref(s->arrays[i]);
    mem_free(s);
}

int residuals_share(residuals **out, const residuals *r, kv_err *e)
{
    *out = NULL;
    if (!r || r->n == 0)
        return KV_OK;
    residuals *copy = mem_zalloc(1, sizeof *copy, e);
    if (!copy)
        return KV_E_MEMORY;
    if (mem_grow(&copy->items, &copy->cap, r->n, sizeof *copy->items, e)) {
        mem_free(copy);
        return KV_E_MEMORY;
    }
    for (; copy->n < r->n; copy->n++)
        copy->items[copy->n] = kv_array_ref(r->items[copy->n]);
    *out = copy;
    return KV_OK;
}

int residuals_place(residuals **r, int64_t at, kv_array ***to, kv_err *e)
{
    if (!*r && !(*r = mem_zalloc(1, sizeof **r, e)))
        return KV_E_MEMORY;
    residuals *all = *r;
    TRY(mem_grow(&all->items, &all->cap, at + 1, sizeof *all->items, e));
    while (all->n <= at)
        all->items[all->n++] = NULL;
    *to = &all->items[at];
    return KV_OK;
}

void residuals_free(residuals *r)
{
    if (!r)
        return;
    for (int64_t i = 0; i < r->n; i++)
        kv_array_unref(r->items[i]);
    mem_free(r->items);
    kv_array_unref(r->sum);
    mem_free(r);
}
